"""One stage on the broker under test: PostgreSQL's queue, or Kafka."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from livedex.consumers.kafka import KafkaBroker, KafkaConsumerLag
from livedex.consumers.postgres.broker import PostgresBroker
from livedex.consumers.postgres.queue_engine import open_queue_engine
from livedex.consumers.record_processor import RecordProcessor
from livedex.consumers.stage_processors import Broker, BrokerOutcomeSink
from livedex.pipeline.events.consumer_lag import ConsumerLag
from livedex.pipeline.events.event import CHANGED, Changed, Event, change_event
from livedex.pipeline.flow import stage
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.settings.kafka import KafkaSettings
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.installation_status import QueueBacklog
from livedex.pipeline.store.replays import DeadLetterReplays

Run = Callable[[Event[Any]], Awaitable[Finished | Forward]]
_NUMBERS = itertools.count()


class StageHarness:
    """The chunk stage replaced by a function.

    Attributes:
        health: what the broker and the stage told, in order.
    """

    def __init__(
        self,
        broker: Broker,
        backlog: ConsumerLag,
        letters: DeadLetterStore,
        health: list[tuple[str, str | None]],
    ) -> None:
        self.broker, self.backlog, self.letters, self.health = broker, backlog, letters, health

    async def publish(self, *names: str) -> None:
        """Put a delete of each of these documents on the first topic."""
        await self.broker.publish(
            [
                change_event(Changed(tenant_id="t", document_id=name, version=1, deleted=True))
                for name in names
            ]
        )

    async def put(self, payload: bytes, place: dict[str, Any] | None = None) -> None:
        """Put exact bytes on the first topic."""
        letter = DeadLetter(
            "",
            UNKNOWN_TENANT,
            "chunk",
            None,
            None,
            "",
            "",
            1,
            topic=CHANGED,
            place=place or {"key": "t/d"},
            payload=payload,
        )
        await self.broker.republish_dead_letter(letter)

    async def left(self) -> int:
        """Records of the stage without an outcome."""
        return (await self.backlog.waiting())["chunk"].waiting

    async def wait_drained(self, timeout_s: float = 30) -> None:
        """Wait until every record has its outcome."""
        async with asyncio.timeout(timeout_s):
            while await self.left():
                await asyncio.sleep(0.02)


class StartStage(Protocol):
    """Runs a function as the chunk stage for as long as the block lasts; what it left stands there
    at the next call.
    """

    def __call__(self, run: Run) -> AbstractAsyncContextManager[StageHarness]: ...


def stage_on_postgres(owner_url: str, database: Database) -> StartStage:
    """The stage on PostgreSQL's queue."""

    @asynccontextmanager
    async def start(run: Run) -> AsyncIterator[StageHarness]:
        health: list[tuple[str, str | None]] = []
        outlet, settler = _settler(database, run, health)
        async with open_queue_engine(owner_url, PostgresBroker.connections([settler])) as engine:
            broker = PostgresBroker(engine, database)
            outlet.connect(broker)
            broker.add(settler)
            async with broker.running():
                yield StageHarness(
                    broker, QueueBacklog(database), DeadLetterStore(database), health
                )

    return start


def kafka_settings(**given: Any) -> KafkaSettings:
    """Settings of an installation of its own on the tests' Kafka."""
    return KafkaSettings(**{"prefix": f"t{os.getpid()}-{next(_NUMBERS)}.", "partitions": 3} | given)


def stage_on_kafka(
    servers: str, database: Database, settings: KafkaSettings | None = None
) -> StartStage:
    """The stage on Kafka, on topics of its own."""
    chosen, addresses = settings or kafka_settings(), tuple(servers.split(","))

    @asynccontextmanager
    async def start(run: Run) -> AsyncIterator[StageHarness]:
        health: list[tuple[str, str | None]] = []
        outlet, settler = _settler(database, run, health)
        async with AsyncExitStack() as stack:
            backlog = KafkaConsumerLag(chosen, addresses)
            stack.push_async_callback(backlog.close)
            broker = KafkaBroker(
                chosen, addresses, lambda component, reason: health.append((component, reason))
            )
            outlet.connect(broker)
            broker.add(settler)
            await stack.enter_async_context(broker.running())
            yield StageHarness(broker, backlog, DeadLetterStore(database), health)

    return start


def _settler(
    database: Database, run: Run, health: list[tuple[str, str | None]]
) -> tuple[BrokerOutcomeSink, RecordProcessor]:
    outlet = BrokerOutcomeSink(DeadLetterStore(database), DeadLetterReplays(database))
    return outlet, RecordProcessor(
        stage("chunk"),
        run,
        outlet,
        Metrics(),
        lambda component, reason: health.append((component, reason)),
    )
