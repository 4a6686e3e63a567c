"""Chunk many concurrent documents in batches in another process, and few of them in a thread.

Chunking in a thread competes with the event loop for the interpreter lock, which matters when many
documents arrive. For a single document, the transfer to another process takes longer than chunking.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from livedex.pipeline.errors import LivedexError
from livedex.pipeline.events.event import INLINE_LIMIT_BYTES
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.stages.document_chunker import (
    ChunkedDocument,
    ChunkerConfig,
    DocumentChunker,
    chunk_document,
)
from livedex.pipeline.stages.process_pool import (
    ProcessChunker,
    WorkerProcess,
    WorkerProcessDiedError,
)
from livedex.pipeline.store.keyword_analyzer import analyze_text

log = logging.getLogger(__name__)

_MANY_DOCUMENTS = 8  # concurrent ones that make batches worthwhile
_BATCH_MODE_S = 1.0  # batches continue for so long after the last time there were many
_IDLE_S = 60.0  # until the process ends
_BATCH_TIMEOUT_S = 30.0
_START_TIMEOUT_S = 60.0
_MAX_BATCH_BYTES = 1_000_000
_MAX_BATCH_DOCUMENTS = 16
_MAX_BATCHES = 2  # one is chunked, one waits


@dataclass(frozen=True, slots=True)
class ChunkJob:
    """The arguments of `DocumentChunker.chunk`."""

    content: bytes
    name: str
    mime_type: str | None


def chunk_documents(
    documents: Sequence[ChunkJob], config: ChunkerConfig
) -> list[ChunkedDocument | None]:
    """Chunk documents and analyze the words of their chunks; runs in another process.

    Args:
        documents: at least one.
        config: of the chunker.

    Returns:
        for each, its chunks without the whole text; None if chunking raised an error.
    """
    return [_chunk_job(document, config) for document in documents]


def _chunk_job(document: ChunkJob, config: ChunkerConfig) -> ChunkedDocument | None:
    try:
        chunked = chunk_document(document.content, document.name, document.mime_type, config)
    except Exception:  # noqa: BLE001 - it is chunked once more alone, which raises the error
        return None
    pieces = tuple(
        piece._replace(words=analyze_text(piece.content, config.text_search_config))
        for piece in chunked.pieces
    )
    extracted = chunked.extracted and replace(chunked.extracted, text="")
    return replace(chunked, extracted=extracted, pieces=pieces)


def _start_worker() -> None:
    """Do nothing: run to start the process."""


class BatchChunker:
    """Chunks documents alone or in batches, by the number of concurrent ones.

    Implements `DocumentChunker`.

    Args:
        config: of the chunker.
        single: chunks one document, while there are few or if it is large.
        fallback: chunks one document with its own timeout, after a batch failed.
        batch_timeout_s: seconds of a batch.
    """

    def __init__(
        self,
        config: ChunkerConfig,
        single: DocumentChunker,
        fallback: ProcessChunker,
        *,
        batch_timeout_s: float = _BATCH_TIMEOUT_S,
    ) -> None:
        self._config, self._single, self._fallback = config, single, fallback
        self._batch_timeout_s = batch_timeout_s
        self._process = WorkerProcess()
        self._batches: MicroBatcher[ChunkJob, ChunkedDocument | None] = MicroBatcher(
            self._chunk_batch,
            size=lambda document: len(document.content),
            max_items=_MAX_BATCH_DOCUMENTS,
            max_size=_MAX_BATCH_BYTES,
            max_concurrent=_MAX_BATCHES,
        )
        self._in_flight = 0
        self._batch_mode_until = 0.0
        self._is_ready = False
        self._starting: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    async def chunk(self, content: bytes, *, name: str, mime_type: str | None) -> ChunkedDocument:
        """Extract the text of a document and split it into chunks.

        Args:
            content: of the document.
            name: a file name, which may tell the format.
            mime_type: which may tell the format.

        Returns:
            the chunks; with analyzed words if they were made in a batch.
        """
        self._in_flight += 1
        try:
            if len(content) > INLINE_LIMIT_BYTES or not self._is_batch_mode():
                return await self._single.chunk(content, name=name, mime_type=mime_type)
            chunked = await self._batches(ChunkJob(content, name, mime_type))
            return chunked or await self._fallback(content, name, mime_type, self._config)
        finally:
            self._in_flight -= 1

    def close(self) -> None:
        """Kill the process."""
        self._is_ready = False
        if self._starting is not None:
            self._starting.cancel()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._process.close()

    def _is_batch_mode(self) -> bool:
        """Return whether there are many documents and the process has started; start it if not."""
        now = asyncio.get_running_loop().time()
        if self._in_flight >= _MANY_DOCUMENTS:
            self._batch_mode_until = now + _BATCH_MODE_S
        if now >= self._batch_mode_until:
            return False
        if not self._is_ready and (self._starting is None or self._starting.done()):
            self._starting = asyncio.create_task(self._start())
        return self._is_ready

    async def _start(self) -> None:
        try:
            await self._process.run(_start_worker, timeout_s=_START_TIMEOUT_S)
        except (TimeoutError, LivedexError) as exc:
            log.warning("documents are chunked in threads, no process could be started: %s", exc)
        else:
            self._is_ready = True
            self._restart_idle_timer()

    def _restart_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_S, self._end_process)

    def _end_process(self) -> None:
        self._is_ready = False
        self._process.close()

    async def _chunk_batch(self, documents: Sequence[ChunkJob]) -> list[ChunkedDocument | None]:
        """Chunk a batch; None for each document if it times out or the process dies."""
        self._restart_idle_timer()
        try:
            return await self._process.run(
                chunk_documents, documents, self._config, timeout_s=self._batch_timeout_s
            )
        except (TimeoutError, WorkerProcessDiedError):
            self._is_ready = False
            log.warning("a batch of %d documents failed: each is chunked alone", len(documents))
            return [None] * len(documents)
