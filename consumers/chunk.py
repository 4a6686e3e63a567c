"""The consumer of the chunk stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from consumers.settle import Outlet, Settler
from pipeline.events import Event
from pipeline.flow import stage
from pipeline.intake import Blobs
from pipeline.metrics import Metrics
from pipeline.runtime.tenant_shares import TenantShares
from pipeline.stages.bulk import BulkCutter
from pipeline.stages.chunk import Cutting, ThreadCutter, chunk
from pipeline.stages.elsewhere import ProcessCutter
from pipeline.stages.fetching import LinkedContents
from pipeline.stages.keeping import DraftKeeper
from pipeline.stages.outcome import Finished, Forward
from pipeline.stages.patch import PatchKeeper
from pipeline.store.protocol import VectorStore

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
