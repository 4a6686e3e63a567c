"""Many documents that come at the same time are cut together in another process; a few are cut in a
thread.

In a thread, cutting takes turns with the event loop, which has enough to do when many documents
come. To hand over a single one would take longer than to cut it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from livedex.pipeline.errors import LivedexError
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.stages.chunk import (
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

_MANY = 8  # of the documents that the stage works on at once
_CALM_S = 1.0  # without many, until they are cut in a thread again
_IDLE_S = 60.0  # until the process is ended
_BATCH_S = 30.0
_START_S = 60.0
_SMALL_BYTES = 262_144
_BATCH_BYTES = 1_000_000
_BATCH_DOCUMENTS = 16
_AT_ONCE = 2  # one is cut, one waits


@dataclass(frozen=True, slots=True)
class ChunkJob:
    """What is cut; see `Cutter.cut`."""

    content: bytes
    name: str
    mime_type: str | None


def chunk_documents(
    documents: Sequence[ChunkJob], cutting: ChunkerConfig
) -> list[ChunkedDocument | None]:
    """Cut documents, and find the words of their pieces as well; runs in another process.

    Returns:
        For each, without its text beside the pieces; None where something was raised.
    """
    return [_cut(document, cutting) for document in documents]


def _cut(document: ChunkJob, cutting: ChunkerConfig) -> ChunkedDocument | None:
    try:
        cut = chunk_document(document.content, document.name, document.mime_type, cutting)
    except Exception:  # noqa: BLE001  # it is cut once more alone, and then raised
        return None
    pieces = tuple(piece._replace(words=analyze_text(piece.content)) for piece in cut.pieces)
    return replace(cut, extracted=cut.extracted and replace(cut.extracted, text=""), pieces=pieces)


def _ready() -> None:
    """What is run to have the process started."""


class BatchChunker:
    """`Cutter` for whatever comes.

    Args:
        alone: cuts one, when few come or one is large.
        elsewhere: cuts one with a time limit of its own, when a batch has failed.
        batch_s: seconds that a batch may take.
    """

    def __init__(
        self,
        cutting: ChunkerConfig,
        alone: DocumentChunker,
        elsewhere: ProcessChunker,
        *,
        batch_s: float = _BATCH_S,
    ) -> None:
        self._cutting, self._alone, self._elsewhere, self._batch_s = (
            cutting,
            alone,
            elsewhere,
            batch_s,
        )
        self._process = WorkerProcess()
        self._together: MicroBatcher[ChunkJob, ChunkedDocument | None] = MicroBatcher(
            self._cut_together,
            size=lambda document: len(document.content),
            max_items=_BATCH_DOCUMENTS,
            max_size=_BATCH_BYTES,
            max_concurrent=_AT_ONCE,
        )
        self._under_way = 0
        self._many_until = 0.0
        self._is_ready = False
        self._starting: asyncio.Task[None] | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def cut(self, content: bytes, *, name: str, mime_type: str | None) -> ChunkedDocument:
        """Extract the text and cut it; the pieces have their words where it was cut with others."""
        self._under_way += 1
        try:
            if len(content) > _SMALL_BYTES or not self._are_many():
                return await self._alone.cut(content, name=name, mime_type=mime_type)
            found = await self._together(ChunkJob(content, name, mime_type))
            return found or await self._elsewhere(content, name, mime_type, self._cutting)
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """End the process, whatever it does."""
        self._is_ready = False
        if self._starting is not None:
            self._starting.cancel()
        if self._ending is not None:
            self._ending.cancel()
        self._process.close()

    def _are_many(self) -> bool:
        """Whether many come, and the process is ready for them; nobody waits for its start."""
        now = asyncio.get_running_loop().time()
        if self._under_way >= _MANY:
            self._many_until = now + _CALM_S
        if now >= self._many_until:
            return False
        if not self._is_ready and (self._starting is None or self._starting.done()):
            self._starting = asyncio.create_task(self._start())
        return self._is_ready

    async def _start(self) -> None:
        try:
            await self._process.run(_ready, timeout_s=_START_S)
        except (TimeoutError, LivedexError) as exc:
            log.warning("documents are cut without a process of their own: %s", exc)
        else:
            self._is_ready = True
            self._end_later()

    def _end_later(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(_IDLE_S, self._end)

    def _end(self) -> None:
        self._is_ready = False
        self._process.close()

    async def _cut_together(self, documents: Sequence[ChunkJob]) -> list[ChunkedDocument | None]:
        """A batch; when it takes too long or takes the process down, each is to be cut alone."""
        self._end_later()
        try:
            return await self._process.run(
                chunk_documents, documents, self._cutting, timeout_s=self._batch_s
            )
        except (TimeoutError, WorkerProcessDiedError):
            self._is_ready = False
            log.warning(
                "%d documents could not be cut together: they are cut one by one", len(documents)
            )
            return [None] * len(documents)
