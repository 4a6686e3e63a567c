"""What waits for a partition without a leader, without a Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

from livedex.consumers.kafka import in_flight_window as windows
from livedex.consumers.kafka import output_topics as announcements
from livedex.consumers.kafka.in_flight_window import InFlightWindow, KafkaRecord
from livedex.consumers.kafka.output_topics import OutputTopicWriter
from livedex.pipeline.errors import OutageError, PartialOutageError
from livedex.pipeline.events.event import SYNCED
from tests.support.kafka.scripted_window import (
    ScriptedProcessor,
    consumer_record,
    offsets,
    topic_partition,
    yield_to_event_loop,
)


def held_window(script: ScriptedProcessor, back: dict[int, asyncio.Event]) -> InFlightWindow:
    """A window whose records of some partitions have no place to go."""

    def until_back(record: KafkaRecord) -> asyncio.Event | None:
        return back.get(record.partition)

    found = InFlightWindow(
        script, "", most_bytes=10**9, progressed=lambda: None, until_back=until_back
    )  # type: ignore[arg-type]
    found.assign([topic_partition(0), topic_partition(1)])
    return found


async def test_what_has_no_place_to_go_takes_no_worker_and_goes_on_in_order_once_it_has() -> None:
    script, back = ScriptedProcessor(), {0: asyncio.Event()}
    w = held_window(script, back)
    w.take(
        topic_partition(0),
        [
            consumer_record(0, 0, b"a"),
            consumer_record(0, 1, b"a"),
            *(consumer_record(0, n, b"%d" % n) for n in range(2, 200)),
        ],
    )
    w.take(topic_partition(1), [consumer_record(1, 0, b"a")])
    await yield_to_event_loop()
    assert list(script.working) == [(1, 0)], "others go on, however many wait"
    assert (
        not w.full and w.should_pause(topic_partition(0)) and not w.should_pause(topic_partition(1))
    ), "no more is read of its partition alone"
    await script.end(1, 0)
    assert offsets(w) == {1: 1}
    back.pop(0).set()
    await yield_to_event_loop()
    assert (0, 0) in script.working and (0, 1) not in script.working
    assert not w.should_pause(topic_partition(0))
    await w.end()


async def test_what_waits_for_a_place_ends_with_its_partition() -> None:
    script, back = ScriptedProcessor(), {0: asyncio.Event()}
    w = held_window(script, back)
    w.take(topic_partition(0), [consumer_record(0, n) for n in range(windows.READ_AHEAD)])
    await yield_to_event_loop()
    w.assign([topic_partition(1)])
    await yield_to_event_loop()
    assert w.size == 0 and not w.should_pause(topic_partition(0)) and not w.full


async def test_only_what_is_told_on_a_partition_without_a_leader_waits(monkeypatch: Any) -> None:
    monkeypatch.setattr(announcements, "_RETRY_EVERY_S", 0.001)
    offline, written, health = {1}, list[int](), dict[str, str | None]()

    async def write(topic: str, event: Any) -> None:
        if event % 2 in offline:
            raise PartialOutageError("broker", "partition 1 has no leader")
        written.append(event)

    told = OutputTopicWriter(write, health.__setitem__, lambda topic, event: event % 2)
    for event in range(6):
        await told.put(SYNCED, event)  # type: ignore[arg-type]
    assert written == [0, 2, 4] and health[f"topic:{SYNCED}"]
    offline.clear()
    task = asyncio.create_task(told.run())
    while health[f"topic:{SYNCED}"] is not None:
        await asyncio.sleep(0.001)
    task.cancel()
    assert written == [0, 2, 4, 1, 3, 5]


def test_it_is_an_outage_for_whoever_sends() -> None:
    assert issubclass(PartialOutageError, OutageError)
