"""The window between what was read and what is committed, without a Kafka."""

from __future__ import annotations

import asyncio

import pytest

from livedex.consumers.kafka import in_flight_window as windows
from livedex.consumers.record_processor import StoppingError
from livedex.pipeline.stages.outcome import Retry
from tests.support.kafka.scripted_window import (
    ScriptedProcessor,
    consumer_record,
    offsets,
    topic_partition,
    window,
    yield_to_event_loop,
)


async def test_an_offset_is_committed_once_all_before_it_have_ended_over_gaps_too() -> None:
    script = ScriptedProcessor()
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, offset) for offset in (3, 5, 9)])
    await yield_to_event_loop()
    assert list(script.working) == [(0, 3), (0, 5), (0, 9)] and offsets(w) == {}
    await script.end(0, 5)
    assert offsets(w) == {}
    await script.end(0, 3)
    assert offsets(w) == {0: 6}
    w.committed({topic_partition(0): 6})
    assert offsets(w) == {}
    await script.end(0, 9)
    assert offsets(w) == {0: 10} and w.size == 0


async def test_records_of_one_key_are_settled_one_after_the_other_and_others_overtake_them() -> (
    None
):
    script = ScriptedProcessor()
    w = window(script)
    w.take(
        topic_partition(0),
        [
            consumer_record(0, 0, b"a"),
            consumer_record(0, 1, b"a"),
            consumer_record(0, 2, b"b"),
            consumer_record(0, 3),
            consumer_record(0, 4),
        ],
    )
    await yield_to_event_loop()
    assert list(script.working) == [(0, 0), (0, 2), (0, 3), (0, 4)]
    await script.end(0, 0, Retry(0.0, "busy"))
    assert (0, 1) not in script.working, "it waits for the one before it, whatever becomes of that"
    await script.end(0, 0)
    assert (0, 1) in script.working


async def test_a_slow_record_lets_other_keys_go_on_and_no_offset_passes_it() -> None:
    script = ScriptedProcessor()
    w = window(script)
    w.take(
        topic_partition(0),
        [consumer_record(0, 0, b"a"), consumer_record(0, 1, b"a"), consumer_record(0, 2, b"b")],
    )
    await yield_to_event_loop()
    await script.end(0, 2)
    await script.end(0, 0, Retry(60.0, "its server is away"))
    assert list(script.working) == [(0, 1)]
    await script.end(0, 1)
    w.take(topic_partition(0), [consumer_record(0, 3, b"a")])
    await yield_to_event_loop()
    await script.end(0, 3)
    assert script.ended == [(0, 2), (0, 1), (0, 3)] and offsets(w) == {} and w.size == 1
    await w.end()
    assert w.size == 0, "who has the partition next reads it again"


async def test_what_waited_long_is_tried_again_until_it_has_its_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "_MAX_BLOCKING_DELAY_S", 0.0)
    script = ScriptedProcessor()
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, 0, b"a"), consumer_record(0, 1, b"a")])
    await yield_to_event_loop()
    for _ in range(3):
        await script.end(0, 0, Retry(0.001, "its server is away"))
        while (0, 0) not in script.working:
            await asyncio.sleep(0.001)
    await script.end(0, 0)
    await script.end(0, 1)
    assert offsets(w) == {0: 2} and w.size == 0


async def test_nothing_more_is_read_while_very_many_wait_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "_MAX_INCOMPLETE", 3)
    script = ScriptedProcessor()
    w = window(script, most_bytes=10**9)
    w.take(topic_partition(0), [consumer_record(0, n) for n in range(3)])
    await yield_to_event_loop()
    await script.end(0, 1)
    assert w.full
    await script.end(0, 0)
    assert not w.full


async def test_offsets_behind_what_is_committed_are_those_of_a_topic_that_was_made_again() -> None:
    script = ScriptedProcessor()
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, offset) for offset in range(5)])
    await yield_to_event_loop()
    for offset in range(3):
        await script.end(0, offset)
    w.take(topic_partition(0), [consumer_record(0, 4), consumer_record(0, 3)])
    assert w.size == 2, "what is not committed yet may be read again"
    w.committed(w.to_commit())
    w.take(topic_partition(0), [consumer_record(0, 0, b"new"), consumer_record(0, 1, b"newer")])
    await yield_to_event_loop()
    assert list(script.working)[-2:] == [(0, 0), (0, 1)]
    await script.end(0, 0)
    assert offsets(w) == {0: 1}


async def test_an_empty_key_is_a_key_and_none_is_not() -> None:
    script = ScriptedProcessor()
    w = window(script)
    w.take(
        topic_partition(0),
        [
            consumer_record(0, 0, b""),
            consumer_record(0, 1, b""),
            consumer_record(0, 2),
            consumer_record(0, 3),
        ],
    )
    await yield_to_event_loop()
    assert list(script.working) == [(0, 0), (0, 2), (0, 3)]


async def test_the_same_key_in_two_partitions_is_two_documents_elsewhere() -> None:
    script = ScriptedProcessor()
    w = window(script, owned=(0, 1))
    w.take(topic_partition(0), [consumer_record(0, 7, b"a")])
    w.take(topic_partition(1), [consumer_record(1, 7, b"a")])
    await yield_to_event_loop()
    assert list(script.working) == [(0, 7), (1, 7)]


async def test_no_more_are_worked_on_than_there_are_workers_and_the_window_fills(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "READ_AHEAD", 4)
    script = ScriptedProcessor(workers=2)
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, offset) for offset in range(7)])
    await yield_to_event_loop()
    assert len(script.working) == 2 and not w.full
    w.take(topic_partition(0), [consumer_record(0, 7)])
    assert w.full and w.size == 8
    await script.end(0, 0)
    assert not w.full and len(script.working) == 2


async def test_records_that_wait_to_be_tried_again_take_no_room_from_others_but_by_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "READ_AHEAD", 4)
    script, progressed = ScriptedProcessor(workers=1), []
    w = window(script, most_bytes=2000, progressed=lambda: progressed.append(w.full))
    w.take(topic_partition(0), [consumer_record(0, offset) for offset in range(4)])
    assert w.full
    for offset in range(4):
        await yield_to_event_loop()
        await script.end(0, offset, Retry(60.0, "its server is slow"))
    assert not w.full and w.size == 4 and progressed[-1] is False, (
        "whoever reads is told that there is room"
    )
    w.take(topic_partition(0), [consumer_record(0, 4)])
    await yield_to_event_loop()
    await script.end(0, 4)
    assert script.ended == [(0, 4)] and offsets(w) == {}, (
        "nothing is committed past those that wait"
    )
    w.take(topic_partition(0), [consumer_record(0, offset, value=b"x" * 500) for offset in (5, 6)])
    assert w.full
    await w.end()
    assert w.size == 0 and not w.full


async def test_large_records_fill_it_sooner() -> None:
    w = window(ScriptedProcessor(), most_bytes=1000)
    w.take(topic_partition(0), [consumer_record(0, 0, value=b"x" * 400)])
    assert not w.full
    w.take(topic_partition(0), [consumer_record(0, 1, value=b"x" * 400)])
    assert w.full


async def test_a_surprise_is_tried_again_and_commits_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "_UNEXPECTED_ERROR_DELAY_S", 0.0)
    script = ScriptedProcessor()
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, 0)])
    await yield_to_event_loop()
    await script.end(0, 0, ZeroDivisionError())
    assert offsets(w) == {} and list(script.working) == [(0, 0)]


async def test_a_stop_is_no_outcome() -> None:
    script = ScriptedProcessor()
    w = window(script)
    w.take(
        topic_partition(0),
        [consumer_record(0, 0, b"a"), consumer_record(0, 1, b"a"), consumer_record(0, 2)],
    )
    await yield_to_event_loop()
    await script.end(0, 0, StoppingError())
    await script.end(0, 2)
    assert offsets(w) == {} and script.working == {}
    await w.end()
    assert offsets(w) == {} and w.size == 0


async def test_of_a_closed_partition_nothing_is_begun_and_what_was_begun_goes_on() -> None:
    script = ScriptedProcessor()
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, 0, b"a"), consumer_record(0, 1, b"a")])
    await yield_to_event_loop()
    w.close([topic_partition(0)])
    w.take(topic_partition(0), [consumer_record(0, 2, b"b")])
    await script.end(0, 0)
    assert script.working == {} and offsets(w) == {0: 1} and await w.wait_idle(1)
    w.assign([topic_partition(0)])
    w.take(
        topic_partition(0),
        [consumer_record(0, 1, b"a"), consumer_record(0, 2, b"b"), consumer_record(0, 3, b"c")],
    )  # read again from what is committed
    await yield_to_event_loop()
    assert sorted(script.working) == [(0, 1), (0, 2), (0, 3)]


async def test_of_a_partition_that_went_away_nothing_goes_on_and_nothing_is_committed() -> None:
    script = ScriptedProcessor(workers=1)
    w = window(script, owned=(0, 1))
    w.take(topic_partition(0), [consumer_record(0, 0), consumer_record(0, 1)])
    w.take(topic_partition(1), [consumer_record(1, 0)])
    await yield_to_event_loop()
    await script.end(0, 0)
    w.assign([topic_partition(1)])
    await yield_to_event_loop()
    assert offsets(w) == {} and list(script.working) == [(1, 0)], (
        "the only worker is free for the other partition"
    )
    assert w.size == 1
    w.take(topic_partition(0), [consumer_record(0, 2)])  # was on its way
    assert w.size == 1


async def test_quiet_says_when_something_goes_on() -> None:
    script = ScriptedProcessor()
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, 0)])
    await yield_to_event_loop()
    assert not await w.wait_idle(0.01)
    await script.end(0, 0)
    assert await w.wait_idle(0.01)


async def test_what_no_consumer_is_given_is_passed_over_only_when_nothing_before_it_is_open() -> (
    None
):
    script = ScriptedProcessor()
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, 0)])
    await yield_to_event_loop()
    w.skip_to(topic_partition(0), 2)
    assert offsets(w) == {}
    await script.end(0, 0)
    w.skip_to(topic_partition(0), 2)
    assert offsets(w) == {0: 2} and w.read_up_to(topic_partition(0)) == 2
    w.skip_to(topic_partition(0), 1)
    w.skip_to(topic_partition(7), 5)
    assert offsets(w) == {0: 2}


async def test_records_behind_one_of_their_key_take_no_room_from_other_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "READ_AHEAD", 2)
    script = ScriptedProcessor(workers=1)
    w = window(script, most_bytes=10**9)
    w.take(topic_partition(0), [consumer_record(0, offset, b"t/slow") for offset in range(600)])
    await yield_to_event_loop()
    assert not w.full
    await script.end(0, 0, Retry(1.0, "its server is away"))
    w.take(topic_partition(0), [consumer_record(0, 600, b"t/other")])
    await yield_to_event_loop()
    assert list(script.working) == [(0, 600)], "the worker is free while the other key waits"
    await w.end()


async def test_of_versions_that_replace_each_other_only_the_newest_is_worked_on() -> None:
    script = ScriptedProcessor(workers=1)
    w = window(script)
    w.take(topic_partition(0), [consumer_record(0, 0, b"t/d", b"replaces")])
    await yield_to_event_loop()
    await script.end(0, 0, Retry(60.0, "its server is away"))
    w.take(
        topic_partition(0),
        [consumer_record(0, offset, b"t/d", b"replaces") for offset in range(1, 4)],
    )
    await yield_to_event_loop()
    await yield_to_event_loop()
    assert list(script.working) == [(0, 3)] and sorted(script.ended) == [(0, 0), (0, 1), (0, 2)]
    await script.end(0, 3)
    assert offsets(w) == {0: 4} and w.size == 0


async def test_what_does_not_replace_the_one_before_it_leaves_it_to_be_tried_again() -> None:
    script = ScriptedProcessor(workers=1)
    w = window(script)
    w.take(
        topic_partition(0),
        [
            consumer_record(0, 0, b"t/d", b"replaces"),
            consumer_record(0, 1, b"t/d", b"has its text with it"),
        ],
    )
    await yield_to_event_loop()
    await script.end(0, 0, Retry(60.0, "its server is away"))
    await script.end(0, 1)
    assert script.ended == [(0, 1)] and w.size == 1
    await w.end()


async def test_tenants_take_turns_whatever_stands_in_front() -> None:
    script = ScriptedProcessor(workers=2)
    w = window(script)
    w.take(
        topic_partition(0),
        [consumer_record(0, n, b"large/%d" % n) for n in range(50)]
        + [consumer_record(0, 50, b"small/d")],
    )
    await yield_to_event_loop()
    assert list(script.working) == [(0, 0), (0, 1), (0, 50)], "one place is kept for who holds none"
    await w.end()
