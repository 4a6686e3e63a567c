"""The broker that the settings name, with the stages that run over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from livedex.app.lazy_fetcher import LateListings
from livedex.app.wiring import Surroundings
from livedex.pipeline.flow import StageName
from livedex.pipeline.ingest.ingester import Accepting, Intake, LateIntake
from livedex.pipeline.stages.remote_content import LinkedContents
from livedex.pipeline.store.documents.access_updates import Guards
from livedex.pipeline.store.documents.document_patches import Patches
from livedex.pipeline.store.documents.fetched_content_cache import FetchedContents
from livedex.pipeline.store.documents.generation_backlog import GenerationBacklog
from livedex.pipeline.store.replays import Replays

if TYPE_CHECKING:
    from livedex.consumers.record_processor import Settler
    from livedex.consumers.stage_processors import Broker, OutletToBroker


@dataclass(frozen=True, slots=True)
class Running:
    """Stages that run.

    Attributes:
        broker: carries the events.
        intake: accepts changes.
    """

    broker: Broker
    intake: Intake


@asynccontextmanager
async def open_broker(
    s: Surroundings, stages: Sequence[StageName] = (), *, patient: bool = False, fills: bool = True
) -> AsyncIterator[Running]:
    """The broker, consuming these stages for as long as the block lasts; draining at its end.

    Args:
        patient: wait for a Kafka that is away at the start.
        fills: what is stored and lacks vectors of the model in use is embedded beside the embed stage.

    Raises:
        OutageError: it is away, for who is not patient.
    """
    # Imported here: FastStream and SQLAlchemy are most of what there is to import, and commands that only look need neither.
    from livedex.consumers.stage_processors import OutletToBroker, settlers_for

    async with AsyncExitStack() as stack:
        late = LateIntake()
        kafka = s.settings.kafka_servers
        outlet = OutletToBroker(s.letters, Replays(s.database), **({"topics_without_reader": frozenset()} if kafka else {}))
        settlers = await stack.enter_async_context(
            settlers_for(
                stages, store=s.store, blobs=s.blobs, generations=s.generations, embeddings=s.embeddings, claims=s.claims, cutting=s.cutting, metrics=s.metrics,
                outlet=outlet, on_pause=s.tell, linked=_linked(s, late), patches=Patches(s.database), backlog=GenerationBacklog(s.database) if fills else None, shares=s.database.shares,
            )
        )  # fmt: skip
        begun = _kafka(s, outlet, settlers, patient) if kafka else _postgres(s, outlet, settlers)
        broker = await stack.enter_async_context(begun)
        intake = Intake(broker, s.blobs, Guards(s.database))
        late.connect(intake)
        yield Running(broker, intake)


def _linked(s: Surroundings, intake: Accepting) -> LinkedContents | None:
    """Contents by their URL; what has to be looked up becomes changes that the intake takes."""
    if s.fetcher is None:
        return None
    return LinkedContents(s.fetcher, FetchedContents(s.database), LateListings(s.settings, s.database, s.fetcher, intake))


@asynccontextmanager
async def _postgres(s: Surroundings, outlet: OutletToBroker, settlers: Sequence[Settler]) -> AsyncIterator[Broker]:
    from livedex.consumers.postgres.broker import PostgresBroker
    from livedex.consumers.postgres.queue_engine import open_engine

    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(open_engine(s.url, PostgresBroker.connections(settlers, s.publishing), s.database.roles))
        broker = PostgresBroker(engine, s.database)
        outlet.connect(broker)
        for settler in settlers:
            broker.add(settler)
        if settlers:
            await stack.enter_async_context(broker.running())
        yield broker


@asynccontextmanager
async def _kafka(s: Surroundings, outlet: OutletToBroker, settlers: Sequence[Settler], patient: bool) -> AsyncIterator[Broker]:
    from livedex.consumers.kafka import KafkaBroker
    from livedex.consumers.lost_records import LossWatch, LostRecords, watching_losses

    broker = KafkaBroker(s.settings.kafka, s.settings.kafka_servers, s.tell, lambda stage, count: losses.lost(stage, count))
    losses = LossWatch(LostRecords(s.database, s.operations, broker), s.metrics, s.tell)
    outlet.connect(broker)
    for settler in settlers:
        broker.add(settler)
    async with broker.running(patient=patient), watching_losses(losses):
        for stage in broker.stages:
            s.liveness.watch(stage.standstill, stage.settler.stage.name)
        yield broker
