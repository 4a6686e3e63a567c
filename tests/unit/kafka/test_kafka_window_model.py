"""The window against a small model: partitions with keys and gaps, read, settled, committed and
handed out anew in any order.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from livedex.pipeline.stages.outcome import Retry
from tests.support.kafka.scripted_window import (
    ScriptedProcessor,
    consumer_record,
    offsets,
    topic_partition,
    window,
    yield_to_event_loop,
)


class Model:
    """What stands in two partitions, who was told what, and what the group has committed."""

    def __init__(self, keys: list[int], gaps: list[int]) -> None:
        self.script = ScriptedProcessor(workers=2)
        self.window = window(self.script, owned=(0, 1))
        self.logs: dict[int, list[Any]] = {0: [], 1: []}
        at = {0: 0, 1: 0}
        for number, (key, gap) in enumerate(zip(keys, gaps, strict=True)):
            partition = number % 2
            at[partition] += gap
            self.logs[partition].append(
                consumer_record(partition, at[partition], None if key == 3 else bytes([key]))
            )
            at[partition] += 1
        self.committed, self.position, self.owned = {0: 0, 1: 0}, {0: 0, 1: 0}, {0, 1}

    def check(self) -> None:
        """No offset passes an open record; one key is never processed twice at once."""
        for partition, offset in offsets(self.window).items():
            open_ = [
                r.offset
                for r in self.logs[partition]
                if r.offset < offset and (partition, r.offset) not in self.script.ended
            ]
            assert not open_, f"{offset} would pass {open_}"
        keys = {(r.partition, r.offset): r.key for log in self.logs.values() for r in log}
        lanes = [
            (place[0], keys[place]) for place in self.script.working if keys[place] is not None
        ]
        assert len(lanes) == len(set(lanes)), "two records of a key at once"
        for partition, offset in self.script.working:
            before = [
                r.offset
                for r in self.logs[partition]
                if r.key == keys[partition, offset] is not None and r.offset < offset
            ]
            assert all((partition, earlier) in self.script.ended for earlier in before), (
                "a key out of order"
            )

    def deliver(self, partition: int, count: int) -> None:
        """The consumer reads on."""
        if partition in self.owned:
            batch = [r for r in self.logs[partition] if r.offset >= self.position[partition]][
                :count
            ]
            if batch:
                self.position[partition] = batch[-1].offset + 1
                self.window.take(topic_partition(partition), batch)

    def commit(self) -> None:
        """The group takes what is to be committed."""
        for place, offset in self.window.to_commit().items():
            self.committed[place.partition] = offset
            self.window.committed({place: offset})

    async def hand_over(self, owned: set[int]) -> None:
        """The partitions are handed out anew; all are read again from what is committed."""
        self.window.close([topic_partition(p) for p in self.owned])
        await yield_to_event_loop()
        self.owned = owned
        self.window.assign([topic_partition(p) for p in owned])
        self.position = dict(self.committed)

    async def some_outcome(self, number: int, outcome: Retry | None) -> None:
        """One of those that are worked on gets an outcome."""
        if self.script.working:
            await self.script.end(
                *sorted(self.script.working)[number % len(self.script.working)], outcome
            )

    async def finish(self) -> None:
        """All ends."""
        await self.hand_over({0, 1})
        for _ in range(200):
            for partition in (0, 1):
                self.deliver(partition, 3)
            await yield_to_event_loop()
            await self.some_outcome(0, None)
            self.check()
        self.commit()
        assert self.committed == {
            p: (log[-1].offset + 1 if log else 0) for p, log in self.logs.items()
        }
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
                await model.some_outcome(a, Retry(0.0, "busy") if step == "again" else None)
            await yield_to_event_loop()
            model.check()
        await model.finish()

    asyncio.run(replay())
