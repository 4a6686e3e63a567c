"""Slots that tenants share, and texts that take turns."""

from __future__ import annotations

import asyncio

from livedex.consumers.fair_semaphore import FairSemaphore
from livedex.pipeline.runtime.fair_queue import FairQueue


class Work:
    """Holders of slots that let go when the test says so."""

    def __init__(self, slots: FairSemaphore) -> None:
        self.slots, self.holding, self.tasks = slots, list[str](), dict[str, asyncio.Task[None]]()
        self._gates: dict[str, asyncio.Event] = {}

    async def ask(self, *names: str) -> None:
        """Each of these asks for a slot; its tenant is the first letter."""
        for name in names:
            self._gates[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold(name))
        await _turns()

    async def _hold(self, name: str) -> None:
        async with self.slots.slot(name[0]):
            self.holding.append(name)
            await self._gates[name].wait()
            self.holding.remove(name)

    async def let_go(self, name: str) -> None:
        self._gates[name].set()
        await _turns()

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_tenant_never_holds_all_and_others_need_not_wait_for_it() -> None:
    work = Work(FairSemaphore(2, 1))
    await work.ask("a1", "a2", "a3", "a4")
    assert work.holding == ["a1", "a2"]
    await work.ask("b1")
    assert work.holding == ["a1", "a2", "b1"]
    await work.ask("b2")
    await work.let_go("a1")
    assert work.holding == ["a2", "b1", "a3"], "both held one: who waits longer is next"
    await work.let_go("a2")
    assert work.holding == ["b1", "a3", "b2"]
    await work.end()


async def test_tenants_that_hold_equally_many_take_turns() -> None:
    work = Work(FairSemaphore(1, 0))
    await work.ask("a1", "a2", "a3", "b1", "c1", "b2")
    order = []
    while work.holding:
        order.append(work.holding[0])
        await work.let_go(work.holding[0])
    assert order == ["a1", "b1", "c1", "a2", "b2", "a3"] or order == [
        "a1",
        "a2",
        "b1",
        "c1",
        "a3",
        "b2",
    ], order


async def test_who_is_cancelled_leaves_its_slot_to_the_next() -> None:
    work = Work(FairSemaphore(1, 0))
    await work.ask("a1", "a2", "b1")
    work.tasks["a2"].cancel()
    await work.let_go("a1")
    assert work.holding == ["b1"]
    work.tasks["b1"].cancel()
    await _turns()
    await work.ask("c1")
    assert "c1" in work.holding
    await work.end()


async def test_who_is_cancelled_at_the_moment_of_its_turn_gives_it_back() -> None:
    work = Work(FairSemaphore(1, 0))
    await work.ask("a1", "b1")
    work._gates["a1"].set()
    await asyncio.sleep(0)
    work.tasks["b1"].cancel()
    await _turns()
    await work.ask("c1")
    assert "c1" in work.holding
    await work.end()


def test_each_request_takes_from_every_owner_in_turn() -> None:
    texts: FairQueue[tuple[str, int]] = FairQueue(lambda item: item[0])
    for n in range(1000):
        texts.add(("large", n))
    texts.add(("small", 0))
    assert texts.take(4) == [("large", 0), ("small", 0), ("large", 1), ("large", 2)]
    assert len(texts) == 997 and ("small", 0) not in list(texts)
    assert len(texts.take(5000)) == 997 and not texts
