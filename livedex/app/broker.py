"""The broker that the settings name, with the stages that run over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from livedex.app.lazy_fetcher import LazyChangeLister
from livedex.app.wiring import AppContext
from livedex.pipeline.flow import StageName
from livedex.pipeline.ingest.ingester import ChangeSink, DeferredIngester, Ingester
from livedex.pipeline.stages.remote_content import RemoteContent
from livedex.pipeline.store.documents.access_updates import PostgresAccessUpdater
from livedex.pipeline.store.documents.document_patches import DocumentPatcher
from livedex.pipeline.store.documents.fetched_content_cache import FetchedContentCache
from livedex.pipeline.store.documents.generation_backlog import GenerationBacklog
from livedex.pipeline.store.replays import DeadLetterReplays

if TYPE_CHECKING:
    from livedex.consumers.record_processor import RecordProcessor
    from livedex.consumers.stage_processors import Broker, BrokerOutcomeSink


@dataclass(frozen=True, slots=True)
class BrokerConnection:
    """Stages that run.

    Attributes:
        broker: carries the events.
        intake: accepts changes.
    """

    broker: Broker
    intake: Ingester


@asynccontextmanager
async def open_broker(
    s: AppContext, stages: Sequence[StageName] = (), *, patient: bool = False, fills: bool = True
) -> AsyncIterator[BrokerConnection]:
    """The broker, consuming these stages for as long as the block lasts; draining at its end.

    Args:
        s: the context of the process.
        stages: that run in this process.
        patient: wait for a Kafka that is away at the start.
        fills: what is stored and lacks vectors of the model in use is embedded beside the embed
            stage.

    Raises:
        OutageError: it is away, for who is not patient.
    """
    # Imported here: FastStream and SQLAlchemy are most of what there is to import, and commands
    # that only look need neither.
    from livedex.consumers.stage_dependencies import StageDependencies
    from livedex.consumers.stage_processors import BrokerOutcomeSink, open_stage_processors

    async with AsyncExitStack() as stack:
        late = DeferredIngester()
        kafka = s.settings.kafka_servers
        outlet = BrokerOutcomeSink(
            s.letters,
            DeadLetterReplays(s.database),
            **({"topics_without_reader": frozenset()} if kafka else {}),
        )
        settlers = await stack.enter_async_context(
            open_stage_processors(
                stages,
                StageDependencies(
                    store=s.store,
                    blobs=s.blobs,
                    generations=s.generations,
                    embeddings=s.embeddings,
                    claims=s.claims,
                    chunker_config=s.cutting,
                    metrics=s.metrics,
                    sink=outlet,
                    on_pause=s.tell,
                    remote_content=_linked(s, late),
                    patches=DocumentPatcher(s.database),
                    backlog=GenerationBacklog(s.database) if fills else None,
                    shares=s.database.shares,
                ),
            )
        )
        begun = _kafka(s, outlet, settlers, patient) if kafka else _postgres(s, outlet, settlers)
        broker = await stack.enter_async_context(begun)
        intake = Ingester(broker, s.blobs, PostgresAccessUpdater(s.database))
        late.connect(intake)
        yield BrokerConnection(broker, intake)


def _linked(s: AppContext, intake: ChangeSink) -> RemoteContent | None:
    """Contents by their URL; what has to be looked up becomes changes that the intake takes."""
    if s.fetcher is None:
        return None
    return RemoteContent(
        s.fetcher,
        FetchedContentCache(s.database),
        LazyChangeLister(s.settings, s.database, s.fetcher, intake),
    )


@asynccontextmanager
async def _postgres(
    s: AppContext, outlet: BrokerOutcomeSink, settlers: Sequence[RecordProcessor]
) -> AsyncIterator[Broker]:
    from livedex.consumers.postgres.broker import PostgresBroker
    from livedex.consumers.postgres.queue_engine import open_queue_engine

    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(
            open_queue_engine(
                s.url, PostgresBroker.connections(settlers, s.publishing), s.database.roles
            )
        )
        broker = PostgresBroker(engine, s.database)
        outlet.connect(broker)
        for settler in settlers:
            broker.add(settler)
        if settlers:
            await stack.enter_async_context(broker.running())
        yield broker


@asynccontextmanager
async def _kafka(
    s: AppContext, outlet: BrokerOutcomeSink, settlers: Sequence[RecordProcessor], patient: bool
) -> AsyncIterator[Broker]:
    from livedex.consumers.kafka import KafkaBroker
    from livedex.consumers.lost_records import (
        RecordLossMonitor,
        RecordRecovery,
        run_record_loss_monitor,
    )

    broker = KafkaBroker(
        s.settings.kafka,
        s.settings.kafka_servers,
        s.tell,
        lambda stage, count: losses.lost(stage, count),
    )
    losses = RecordLossMonitor(RecordRecovery(s.database, s.operations, broker), s.metrics, s.tell)
    outlet.connect(broker)
    for settler in settlers:
        broker.add(settler)
    async with broker.running(patient=patient), run_record_loss_monitor(losses):
        for stage in broker.stages:
            s.liveness.watch(stage.stall_reason, stage.settler.stage.name)
        yield broker
