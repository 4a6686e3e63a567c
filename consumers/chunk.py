"""The consumer of the chunk stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from livedex.consumers.record_processor import Outlet, Settler
from livedex.pipeline.events.event import Event
from livedex.pipeline.flow import stage
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.stages.batch_chunker import BulkCutter
from livedex.pipeline.stages.batched_store import DraftKeeper
from livedex.pipeline.stages.chunk import Cutting, ThreadCutter, chunk
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.patch import PatchKeeper
from livedex.pipeline.stages.process_pool import ProcessCutter
from livedex.pipeline.stages.remote_content import LinkedContents
from livedex.pipeline.store.protocol import Blobs, VectorStore

_LARGE_AT_ONCE = 2  # contents above the inline limit that are in memory together


@asynccontextmanager
async def chunk_settler(
    store: VectorStore,
    blobs: Blobs,
    cutting: Cutting,
    metrics: Metrics,
    outlet: Outlet,
    on_pause: Callable[[str, str | None], None],
    shares: TenantShares,
    linked: LinkedContents | None = None,
    patches: PatchKeeper | None = None,
) -> AsyncIterator[Settler]:
    """The chunk stage, with processes for large documents and for many."""
    elsewhere = ProcessCutter()
    cutter = BulkCutter(cutting, ThreadCutter(cutting, elsewhere), elsewhere)
    keeper = DraftKeeper(store)
    large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def run(event: Event[Any]) -> Forward | Finished:
        async with large if event.data.blob is not None else nullcontext():
            return await chunk(
                event, store=store, keeper=keeper, blobs=blobs, cutter=cutter, cutting=cutting, reused=metrics.reused_passages_total.inc,
                linked=linked, patches=patches,
            )  # fmt: skip

    try:
        yield Settler(stage("chunk"), run, outlet, metrics, on_pause, shares)
    finally:
        cutter.close()
        elsewhere.close()
