"""The window between what was read and what is committed, without a Kafka: outcomes come when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.kafka import window as windows
from consumers.kafka.window import Window
from consumers.settle import Record, StoppingError
from pipeline.stages.outcome import Again

TOPIC = "livedex.changed"
Place = tuple[int, int]


def raw(partition: int, offset: int, key: bytes | None = None, value: bytes = b"x") -> Any:
    """A record as aiokafka delivers it."""
    return SimpleNamespace(topic=TOPIC, partition=partition, offset=offset, key=key, value=value, headers=(), timestamp=0)


def place_of(partition: int) -> TopicPartition:
    """A partition of the topic."""
    return TopicPartition(TOPIC, partition)


class Script:
    """A settler whose records end when the test says so.

    Attributes:
        working: what is worked on, in the order of its begin.
        ended: what has its outcome, in order.
    """

    def __init__(self, workers: int = 4) -> None:
        self.stage = SimpleNamespace(name="chunk", workers=workers)
        self.working: dict[Place, asyncio.Future[Again | None]] = {}
        self.ended: list[Place] = []

    async def settle(self, record: Record) -> Again | None:
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

    async def end(self, partition: int, offset: int, outcome: Again | Exception | None = None) -> None:
        """Give a record an outcome."""
        future = self.working[partition, offset]
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        await turns()


async def turns() -> None:
    """Let all run that can."""
    for _ in range(8):
        await asyncio.sleep(0)


def window(script: Script, *, most_bytes: int = 10_000, progressed: Callable[[], None] = lambda: None, owned: Iterable[int] = (0,)) -> Window:
    """A window that owns some partitions."""
    made = Window(script, "", most_bytes=most_bytes, progressed=progressed)  # type: ignore[arg-type]
    made.assign([place_of(n) for n in owned])
    return made


def offsets(of: Window) -> dict[int, int]:
    """What is to be committed."""
    return {place.partition: offset for place, offset in of.to_commit().items()}


async def test_an_offset_is_committed_once_all_before_it_have_ended_over_gaps_too() -> None:
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, offset) for offset in (3, 5, 9)])
    await turns()
    assert list(script.working) == [(0, 3), (0, 5), (0, 9)] and offsets(w) == {}
    await script.end(0, 5)
    assert offsets(w) == {}
    await script.end(0, 3)
    assert offsets(w) == {0: 6}
    w.committed({place_of(0): 6})
    assert offsets(w) == {}
    await script.end(0, 9)
    assert offsets(w) == {0: 10} and w.size == 0


async def test_records_of_one_key_are_settled_one_after_the_other_and_others_overtake_them() -> None:
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, 0, b"a"), raw(0, 1, b"a"), raw(0, 2, b"b"), raw(0, 3), raw(0, 4)])
    await turns()
    assert list(script.working) == [(0, 0), (0, 2), (0, 3), (0, 4)]
    await script.end(0, 0, Again(0.0, "busy"))
    assert (0, 1) not in script.working, "it waits for the one before it, whatever becomes of that"
    await script.end(0, 0)
    assert (0, 1) in script.working


async def test_an_empty_key_is_a_key_and_none_is_not() -> None:
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, 0, b""), raw(0, 1, b""), raw(0, 2), raw(0, 3)])
    await turns()
    assert list(script.working) == [(0, 0), (0, 2), (0, 3)]


async def test_the_same_key_in_two_partitions_is_two_documents_elsewhere() -> None:
    script = Script()
    w = window(script, owned=(0, 1))
    w.take(place_of(0), [raw(0, 7, b"a")])
    w.take(place_of(1), [raw(1, 7, b"a")])
    await turns()
    assert list(script.working) == [(0, 7), (1, 7)]


async def test_no_more_are_worked_on_than_there_are_workers_and_the_window_fills() -> None:
    script = Script(workers=2)
    w = window(script)
    w.take(place_of(0), [raw(0, offset) for offset in range(7)])
    await turns()
    assert len(script.working) == 2 and not w.full
    w.take(place_of(0), [raw(0, 7)])
    assert w.full and w.size == 8
    await script.end(0, 0)
    assert not w.full and len(script.working) == 2


async def test_large_records_fill_it_sooner() -> None:
    w = window(Script(), most_bytes=1000)
    w.take(place_of(0), [raw(0, 0, value=b"x" * 400)])
    assert not w.full
    w.take(place_of(0), [raw(0, 1, value=b"x" * 400)])
    assert w.full


async def test_a_surprise_is_tried_again_and_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "_AFTER_A_SURPRISE_S", 0.0)
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, 0)])
    await turns()
    await script.end(0, 0, ZeroDivisionError())
    assert offsets(w) == {} and list(script.working) == [(0, 0)]


async def test_a_stop_is_no_outcome() -> None:
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, 0, b"a"), raw(0, 1, b"a"), raw(0, 2)])
    await turns()
    await script.end(0, 0, StoppingError())
    await script.end(0, 2)
    assert offsets(w) == {} and script.working == {}
    await w.end()
    assert offsets(w) == {} and w.size == 0


async def test_of_a_closed_partition_nothing_is_begun_and_what_was_begun_goes_on() -> None:
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, 0, b"a"), raw(0, 1, b"a")])
    await turns()
    w.close([place_of(0)])
    w.take(place_of(0), [raw(0, 2, b"b")])
    await script.end(0, 0)
    assert script.working == {} and offsets(w) == {0: 1} and await w.quiet(1)
    w.assign([place_of(0)])
    w.take(place_of(0), [raw(0, 1, b"a"), raw(0, 2, b"b"), raw(0, 3, b"c")])  # read again from what is committed
    await turns()
    assert sorted(script.working) == [(0, 1), (0, 2), (0, 3)]


async def test_of_a_partition_that_went_away_nothing_goes_on_and_nothing_is_committed() -> None:
    script = Script(workers=1)
    w = window(script, owned=(0, 1))
    w.take(place_of(0), [raw(0, 0), raw(0, 1)])
    w.take(place_of(1), [raw(1, 0)])
    await turns()
    await script.end(0, 0)
    w.assign([place_of(1)])
    await turns()
    assert offsets(w) == {} and list(script.working) == [(1, 0)], "the only worker is free for the other partition"
    assert w.size == 1
    w.take(place_of(0), [raw(0, 2)])  # was on its way
    assert w.size == 1


async def test_quiet_says_when_something_goes_on() -> None:
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, 0)])
    await turns()
    assert not await w.quiet(0.01)
    await script.end(0, 0)
    assert await w.quiet(0.01)


async def test_what_no_consumer_is_given_is_passed_over_only_when_nothing_before_it_is_open() -> None:
    script = Script()
    w = window(script)
    w.take(place_of(0), [raw(0, 0)])
    await turns()
    w.pass_over(place_of(0), 2)
    assert offsets(w) == {}
    await script.end(0, 0)
    w.pass_over(place_of(0), 2)
    assert offsets(w) == {0: 2} and w.read_up_to(place_of(0)) == 2
    w.pass_over(place_of(0), 1)
    w.pass_over(place_of(7), 5)
    assert offsets(w) == {0: 2}


class Model:
    """What stands in two partitions, who was told what, and what the group has committed."""

    def __init__(self, keys: list[int], gaps: list[int]) -> None:
        self.script = Script(workers=2)
        self.window = window(self.script, owned=(0, 1))
        self.logs: dict[int, list[Any]] = {0: [], 1: []}
        at = {0: 0, 1: 0}
        for number, (key, gap) in enumerate(zip(keys, gaps, strict=True)):
            partition = number % 2
            at[partition] += gap
            self.logs[partition].append(raw(partition, at[partition], None if key == 3 else bytes([key])))
            at[partition] += 1
        self.committed, self.position, self.owned = {0: 0, 1: 0}, {0: 0, 1: 0}, {0, 1}

    def check(self) -> None:
        """Nothing without an outcome is passed; no key is worked on twice at once or out of order."""
        for partition, offset in offsets(self.window).items():
            open_ = [r.offset for r in self.logs[partition] if r.offset < offset and (partition, r.offset) not in self.script.ended]
            assert not open_, f"{offset} would pass {open_}"
        keys = {(r.partition, r.offset): r.key for log in self.logs.values() for r in log}
        lanes = [(place[0], keys[place]) for place in self.script.working if keys[place] is not None]
        assert len(lanes) == len(set(lanes)), "two records of a key at once"
        for partition, offset in self.script.working:
            before = [r.offset for r in self.logs[partition] if r.key == keys[partition, offset] is not None and r.offset < offset]
            assert all((partition, earlier) in self.script.ended for earlier in before), "a key out of order"

    def deliver(self, partition: int, count: int) -> None:
        """The consumer reads on."""
        if partition in self.owned:
            batch = [r for r in self.logs[partition] if r.offset >= self.position[partition]][:count]
            if batch:
                self.position[partition] = batch[-1].offset + 1
                self.window.take(place_of(partition), batch)

    def commit(self) -> None:
        """The group takes what is to be committed."""
        for place, offset in self.window.to_commit().items():
            self.committed[place.partition] = offset
            self.window.committed({place: offset})

    async def hand_over(self, owned: set[int]) -> None:
        """The partitions are handed out anew; all are read again from what is committed."""
        self.window.close([place_of(p) for p in self.owned])
        await turns()
        self.owned = owned
        self.window.assign([place_of(p) for p in owned])
        self.position = dict(self.committed)

    async def some_outcome(self, number: int, outcome: Again | None) -> None:
        """One of those that are worked on gets an outcome."""
        if self.script.working:
            await self.script.end(*sorted(self.script.working)[number % len(self.script.working)], outcome)

    async def finish(self) -> None:
        """All ends."""
        await self.hand_over({0, 1})
        for _ in range(200):
            for partition in (0, 1):
                self.deliver(partition, 3)
            await turns()
            await self.some_outcome(0, None)
            self.check()
        self.commit()
        assert self.committed == {p: (log[-1].offset + 1 if log else 0) for p, log in self.logs.items()}
        assert self.window.size == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 1), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("again"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("commit"), st.just(0), st.just(0)),
        st.tuples(st.just("hand over"), st.integers(0, 3), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=16), STEPS)
def test_whatever_happens_nothing_is_passed_nothing_is_lost_and_keys_stay_in_order(
    records: list[tuple[int, int]], steps: list[tuple[str, int, int]]
) -> None:
    async def replay() -> None:
        model = Model([key for key, _ in records], [gap for _, gap in records])
        for step, a, b in steps:
            if step == "deliver":
                model.deliver(a, b)
            elif step == "commit":
                model.commit()
            elif step == "hand over":
                await model.hand_over({p for p in (0, 1) if a >> p & 1})
            else:
                await model.some_outcome(a, Again(0.0, "busy") if step == "again" else None)
            await turns()
            model.check()
        await model.finish()

    asyncio.run(replay())
