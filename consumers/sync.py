"""Build the record processor of the sync stage."""

from __future__ import annotations

from typing import Any

from livedex.consumers.record_processor import RecordProcessor
from livedex.consumers.stage_dependencies import StageDependencies
from livedex.pipeline.events.event import Event
from livedex.pipeline.flow import stage
from livedex.pipeline.stages.batched_store import BatchedVersionPublisher
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.sync import sync


def sync_processor(dependencies: StageDependencies) -> RecordProcessor:
    """Return the sync stage; versions of documents that end at the same time become visible in one
    transaction.
    """
    publisher = BatchedVersionPublisher(dependencies.store)

    async def run(event: Event[Any]) -> Forward | Finished:
        return await sync(event, store=publisher, generations=dependencies.generations)

    return dependencies.record_processor(stage("sync"), run)
