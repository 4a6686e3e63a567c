"""The consumer of the chunk stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from livedex.consumers.record_processor import OutcomeSink, RecordProcessor
from livedex.pipeline.events.event import Event
from livedex.pipeline.flow import stage
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.stages.batch_chunker import BatchChunker
from livedex.pipeline.stages.batched_store import BatchedDraftStore
from livedex.pipeline.stages.chunk import ChunkerConfig, ThreadChunker, chunk
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.patch import PatchStore
from livedex.pipeline.stages.process_pool import ProcessChunker
from livedex.pipeline.stages.remote_content import RemoteContent
from livedex.pipeline.store.protocol import BlobStore, VectorStore

_LARGE_AT_ONCE = 2  # contents above the inline limit that are in memory together


@asynccontextmanager
async def open_chunk_processor(
    store: VectorStore,
    blobs: BlobStore,
    cutting: ChunkerConfig,
    metrics: Metrics,
    outlet: OutcomeSink,
    on_pause: Callable[[str, str | None], None],
    shares: TenantShares,
    linked: RemoteContent | None = None,
    patches: PatchStore | None = None,
) -> AsyncIterator[RecordProcessor]:
    """The chunk stage, with processes for large documents and for many."""
    elsewhere = ProcessChunker()
    cutter = BatchChunker(cutting, ThreadChunker(cutting, elsewhere), elsewhere)
    keeper = BatchedDraftStore(store)
    large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def run(event: Event[Any]) -> Forward | Finished:
        async with large if event.data.blob is not None else nullcontext():
            return await chunk(
                event,
                store=store,
                keeper=keeper,
                blobs=blobs,
                cutter=cutter,
                cutting=cutting,
                reused=metrics.reused_passages_total.inc,
                linked=linked,
                patches=patches,
            )

    try:
        yield RecordProcessor(stage("chunk"), run, outlet, metrics, on_pause, shares)
    finally:
        cutter.close()
        elsewhere.close()
