"""Cut large documents in a process of their own: the event loop stays free, and what hangs can be ended."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from pipeline.errors import RetryableError
from pipeline.stages.chunk import Cut, Cutting, cut_document

_PARENT_CHECK_S = 1.0


def _begin(parent: int) -> None:
    """Leave signals to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class ProcessCutter:
    """Runs `cut_document` in another process, started at the first document.

    Args:
        timeout_s: a document that takes longer gets the state `timeout`.
    """

    def __init__(self, timeout_s: float = 120.0) -> None:
        self._timeout_s = timeout_s
        self._pool: ProcessPoolExecutor | None = None
        self._turn = asyncio.Lock()

    async def __call__(self, content: bytes, name: str, mime_type: str | None, cutting: Cutting) -> Cut:
        """Cut a document; one at a time, so that the time limit counts its own time only.

        Raises:
            RetryableError: the process died.
        """
        async with self._turn:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(os.getpid(),))
            work = asyncio.get_running_loop().run_in_executor(self._pool, cut_document, content, name, mime_type, cutting)
            try:
                return await asyncio.wait_for(work, self._timeout_s)
            except TimeoutError:
                self.close()
                return Cut(
                    "timeout", error=f"It took longer than {self._timeout_s:.0f} s to read: split it, or look at what is odd about it."
                )
            except BrokenProcessPool as exc:
                self.close()
                raise RetryableError(f"the process that read {name} died") from exc

    def close(self) -> None:
        """End the process, whatever it does."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
