"""The consumer of the sync stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livedex.consumers.record_processor import OutcomeSink, RecordProcessor
from livedex.pipeline.events.event import Event
from livedex.pipeline.flow import stage
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.stages.batched_store import BatchedVersionPublisher
from livedex.pipeline.stages.embed import ActiveGenerationProvider
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.sync import sync
from livedex.pipeline.store.protocol import VectorStore


def sync_processor(
    store: VectorStore,
    generations: ActiveGenerationProvider,
    metrics: Metrics,
    outlet: OutcomeSink,
    on_pause: Callable[[str, str | None], None],
    shares: TenantShares | None = None,
) -> RecordProcessor:
    """The sync stage; versions of documents that end at the same time become visible in one
    transaction.
    """
    syncer = BatchedVersionPublisher(store)

    async def run(event: Event[Any]) -> Forward | Finished:
        return await sync(event, store=syncer, generations=generations)

    return RecordProcessor(stage("sync"), run, outlet, metrics, on_pause, shares)
