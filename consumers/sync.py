"""The consumer of the sync stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumers.settle import Outlet, Settler
from pipeline.events import Event
from pipeline.flow import stage
from pipeline.metrics import Metrics
from pipeline.runtime.tenant_shares import TenantShares
from pipeline.stages.embed import Generations
from pipeline.stages.keeping import DocumentSyncer
from pipeline.stages.outcome import Finished, Forward
from pipeline.stages.sync import sync
from pipeline.store.protocol import VectorStore


def sync_settler(
    store: VectorStore,
    generations: Generations,
    metrics: Metrics,
    outlet: Outlet,
    on_pause: Callable[[str, str | None], None],
    shares: TenantShares | None = None,
) -> Settler:
    """The sync stage; versions of documents that end at the same time become visible in one transaction."""
    syncer = DocumentSyncer(store)

    async def run(event: Event[Any]) -> Forward | Finished:
        return await sync(event, store=syncer, generations=generations)

    return Settler(stage("sync"), run, outlet, metrics, on_pause, shares)
