"""Chunk documents in a process pool: the event loop stays free and a hang can be killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.stages.chunk import ChunkedDocument, ChunkerConfig, chunk_document

_PARENT_CHECK_S = 1.0
_NICE = 5  # large documents and many at once leave the processor to whoever waits for an answer

R = TypeVar("R")


def _begin(parent: int) -> None:
    """Leave signals to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class WorkerProcessDiedError(RetryableError):
    """The process died, or was ended because it took too long."""


class WorkerProcess:
    """Another process that runs functions, one after the other; started at the first, and anew
    after it ended.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, function: Callable[..., R], *arguments: object, timeout_s: float) -> R:
        """What a function returns there.

        Args:
            timeout_s: seconds until it is ended; the time that it waits for others counts too.

        Raises:
            TimeoutError: it took longer.
            WorkerProcessDiedError: the process died, or was ended because of another function.
        """
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                1, mp_context=context, initializer=_begin, initargs=(os.getpid(),)
            )
        pool = self._pool
        work = asyncio.get_running_loop().run_in_executor(pool, function, *arguments)
        done, _ = await asyncio.wait({work}, timeout=timeout_s)
        if not done:
            self._end(pool)
            raise TimeoutError
        try:
            return work.result()
        except (BrokenProcessPool, asyncio.CancelledError) as exc:
            self._end(pool)
            raise WorkerProcessDiedError("the process that read documents died") from exc

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._pool is not None:
            self._end(self._pool)

    def _end(self, pool: ProcessPoolExecutor) -> None:
        if self._pool is pool:
            self._pool = None
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)


class ProcessChunker:
    """Runs `cut_document` in another process.

    Args:
        timeout_s: a document that takes longer gets the state `timeout`.
    """

    def __init__(self, timeout_s: float = 120.0) -> None:
        self._timeout_s = timeout_s
        self._process = WorkerProcess()
        self._turn = asyncio.Lock()

    async def __call__(
        self, content: bytes, name: str, mime_type: str | None, cutting: ChunkerConfig
    ) -> ChunkedDocument:
        """Cut a document; one at a time, so that the time limit counts its own time only.

        Raises:
            RetryableError: the process died.
        """
        async with self._turn:
            try:
                return await self._process.run(
                    chunk_document, content, name, mime_type, cutting, timeout_s=self._timeout_s
                )
            except TimeoutError:
                return ChunkedDocument(
                    "timeout",
                    error=f"It took longer than {self._timeout_s:.0f} s to read: split it, "
                    "or look at what is odd about it.",
                )
            except WorkerProcessDiedError as exc:
                raise RetryableError(f"the process that read {name} died") from exc

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.close()
