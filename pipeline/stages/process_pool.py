"""Chunk documents in another process: the event loop stays free, and a hang can be killed."""

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
from typing import Any, TypeVar

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.stages.document_chunker import ChunkedDocument, ChunkerConfig, chunk_document

_PARENT_CHECK_S = 1.0
_NICE = 5  # requests that wait for a response have priority

R = TypeVar("R")


def _initialize_worker(parent: int) -> None:
    """Leave signals to the parent process, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_S)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()


def _retrieve_exception(work: asyncio.Future[Any]) -> None:
    """Mark the exception of abandoned work as retrieved, so that it is not logged."""
    if not work.cancelled():
        work.exception()


class WorkerProcessDiedError(RetryableError):
    """The process died, or was killed after a timeout."""


class WorkerProcess:
    """Runs functions in another process, one at a time; starts it on demand, and again after it
    ended.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, function: Callable[..., R], *arguments: object, timeout_s: float) -> R:
        """Return the result of a function in the process.

        Args:
            function: importable in the process.
            *arguments: of the function; they and the result can be pickled.
            timeout_s: seconds, including the time in the queue; then the process is killed.

        Raises:
            TimeoutError: no result in time.
            WorkerProcessDiedError: the process died, or was killed because of another function.
        """
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                1, mp_context=context, initializer=_initialize_worker, initargs=(os.getpid(),)
            )
        pool = self._pool
        work = asyncio.get_running_loop().run_in_executor(pool, function, *arguments)
        done, _ = await asyncio.wait({work}, timeout=timeout_s)
        if not done:
            work.add_done_callback(_retrieve_exception)
            self._kill(pool)
            raise TimeoutError
        try:
            return work.result()
        except (BrokenProcessPool, asyncio.CancelledError) as exc:
            self._kill(pool)
            raise WorkerProcessDiedError("the process that reads documents died") from exc

    def close(self) -> None:
        """Kill the process."""
        if self._pool is not None:
            self._kill(self._pool)

    def _kill(self, pool: ProcessPoolExecutor) -> None:
        if self._pool is pool:
            self._pool = None
        # Python 3.14 has `kill_workers`; before that, no public way to kill a worker exists
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)


class ProcessChunker:
    """Runs `chunk_document` in another process.

    Args:
        timeout_s: seconds until a document gets the state `timeout`.
    """

    def __init__(self, timeout_s: float = 120.0) -> None:
        self._timeout_s = timeout_s
        self._process = WorkerProcess()
        self._lock = asyncio.Lock()

    async def __call__(
        self, content: bytes, name: str, mime_type: str | None, config: ChunkerConfig
    ) -> ChunkedDocument:
        """Chunk a document; one at a time, so that the timeout counts only its own time.

        Args:
            content: of the document.
            name: a file name, which may tell the format.
            mime_type: which may tell the format.
            config: of the chunker.

        Raises:
            RetryableError: the process died.
        """
        async with self._lock:
            try:
                return await self._process.run(
                    chunk_document, content, name, mime_type, config, timeout_s=self._timeout_s
                )
            except TimeoutError:
                return ChunkedDocument(
                    "timeout",
                    error=f"It took longer than {self._timeout_s:.0f} s to read: split it, "
                    "or simplify its structure.",
                )
            except WorkerProcessDiedError as exc:
                raise RetryableError(f"the process that read {name} died") from exc

    def close(self) -> None:
        """Kill the process."""
        self._process.close()
