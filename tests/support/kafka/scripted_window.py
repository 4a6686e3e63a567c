"""A window over Kafka's records whose outcomes come when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition

from livedex.consumers.kafka.in_flight_window import InFlightWindow
from livedex.consumers.record_processor import Record
from livedex.pipeline.stages.outcome import Retry

TOPIC = "livedex.changed"
Place = tuple[int, int]


def consumer_record(
    partition: int, offset: int, key: bytes | None = None, value: bytes = b"x"
) -> Any:
    """A record as aiokafka delivers it."""
    return SimpleNamespace(
        topic=TOPIC,
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=(),
        timestamp=0,
    )


def topic_partition(partition: int) -> TopicPartition:
    """A partition of the topic."""
    return TopicPartition(TOPIC, partition)


class ScriptedProcessor:
    """A settler whose records end when the test says so.

    Attributes:
        working: what is worked on, in the order of its begin.
        ended: what has its outcome, in order.
    """

    def __init__(self, workers: int = 4) -> None:
        self.stage = SimpleNamespace(name="chunk", workers=workers)
        self.working: dict[Place, asyncio.Future[Retry | None]] = {}
        self.ended: list[Place] = []

    async def process(self, record: Record) -> Retry | None:
        """Wait for the test."""
        place = (record.place["partition"], record.place["offset"])
        assert place not in self.working, "the same record twice at once"
        self.working[place] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self.working[place]
        finally:
            del self.working[place]
        if outcome is None:
            self.ended.append(place)
        return outcome

    def is_superseded(self, record: Record, newer: Record) -> bool:
        """Values that say so replace what has the same key."""
        return record.payload == newer.payload == b"replaces"

    def record_superseded(self, record: Record) -> None:
        """It ends without being worked on."""
        self.ended.append((record.place["partition"], record.place["offset"]))

    async def end(
        self, partition: int, offset: int, outcome: Retry | Exception | None = None
    ) -> None:
        """Give a record an outcome."""
        future = self.working[partition, offset]
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        await yield_to_event_loop()


async def yield_to_event_loop() -> None:
    """Let all run that can."""
    for _ in range(8):
        await asyncio.sleep(0)


def window(
    script: ScriptedProcessor,
    *,
    most_bytes: int = 10_000,
    progressed: Callable[[], None] = lambda: None,
    owned: Iterable[int] = (0,),
) -> InFlightWindow:
    """A window that owns some partitions."""
    made = InFlightWindow(script, "", most_bytes=most_bytes, progressed=progressed)
    made.assign([topic_partition(n) for n in owned])
    return made


def offsets(of: InFlightWindow) -> dict[int, int]:
    """What is to be committed."""
    return {place.partition: offset for place, offset in of.to_commit().items()}
