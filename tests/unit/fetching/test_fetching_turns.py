"""One server that is slow, away or asks for patience holds up no fetches but its own."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest

from livedex.pipeline.errors import NoTurnError, RetryableError, ThrottledError
from livedex.pipeline.fetch.bounds import Bounds
from livedex.pipeline.fetch.fetch_limiter import LONGEST_PATIENCE_S, LONGEST_WAIT_S, Turns
from livedex.pipeline.fetch.fetcher import Getter
from tests.scripted_web import Page, ScriptedWeb
from tests.unit.fetching.client import QUICK, Client

SLOW, OTHER, THIRD = (("https", f"{name}.test", 443) for name in ("slow", "other", "third"))
FEW = Bounds(at_once=4, each=2, share=3, turn_s=0.01, whole_s=30.0)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> Turns:
    return Turns(FEW, clock)


async def test_a_slow_server_and_a_busy_tenant_have_their_share_and_no_more(turns: Turns) -> None:
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(turns.turn(SLOW, "t"))
        with pytest.raises(NoTurnError) as none:
            await held.enter_async_context(turns.turn(SLOW, "u"))
        assert none.value.retry_after_s is not None
        await held.enter_async_context(turns.turn(OTHER, "t"))
        with pytest.raises(NoTurnError):
            await held.enter_async_context(turns.turn(THIRD, "t"))
        await held.enter_async_context(turns.turn(THIRD, "u"))
        with pytest.raises(NoTurnError):
            await held.enter_async_context(turns.turn(THIRD, "v"))
    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        pass


async def test_a_turn_that_failed_to_be_had_takes_none_away(turns: Turns) -> None:
    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        for _ in range(10):
            with pytest.raises(NoTurnError):
                async with turns.turn(SLOW, "t"):
                    raise AssertionError
        async with turns.turn(OTHER, "t"):
            pass


async def test_the_more_wait_for_a_server_the_later_they_come_back_and_they_wait_for_nothing_here(turns: Turns) -> None:
    async def refused() -> float:
        with pytest.raises(NoTurnError) as none:
            async with turns.turn(SLOW, "t"):
                raise AssertionError
        assert none.value.retry_after_s is not None
        return none.value.retry_after_s

    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        waits = await asyncio.gather(*(refused() for _ in range(500)))
        assert min(waits) < 1 < max(waits) == 10
    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        assert await refused() < 1


async def test_a_server_that_is_away_is_asked_by_one_at_growing_intervals_and_the_others_fail_at_once(turns: Turns, clock: Clock) -> None:
    asked_at = []
    for _ in range(4000):
        try:
            async with turns.turn(SLOW, "t"):
                asked_at.append(clock.now)
                if len(asked_at) > 3:
                    with pytest.raises(RetryableError) as away:  # another one meanwhile
                        async with turns.turn(SLOW, "t"):
                            raise AssertionError
                    assert not isinstance(away.value, NoTurnError) and away.value.first_wait_s
            turns.silent(SLOW)
        except RetryableError:
            async with turns.turn(OTHER, "t"):
                pass
        clock.now += 0.05
    pauses = [round(b - a) for a, b in itertools.pairwise(asked_at)]
    assert pauses[:8] == [0, 0, 1, 2, 4, 8, 16, 30]
    clock.now += 60
    async with turns.turn(SLOW, "t"):
        pass
    turns.answered(SLOW)
    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        pass


async def test_patience_that_was_asked_for_is_had_in_steps_that_are_not_too_long(turns: Turns, clock: Clock) -> None:
    turns.be_patient(SLOW, 10**6)
    with pytest.raises(NoTurnError) as none:
        async with turns.turn(SLOW, "t"):
            raise AssertionError
    assert none.value.retry_after_s == LONGEST_WAIT_S
    clock.now += LONGEST_PATIENCE_S - 10
    with pytest.raises(NoTurnError) as none:
        async with turns.turn(SLOW, "t"):
            raise AssertionError
    assert none.value.retry_after_s == 10
    clock.now += 10
    async with turns.turn(SLOW, "t"):
        pass


async def test_what_is_known_of_servers_does_not_grow_for_ever(turns: Turns, clock: Clock) -> None:
    turns.be_patient(SLOW, 3000)
    for n in range(5000):
        async with turns.turn(("http", f"{n}.test", 80), "t"):
            pass
    assert len(turns._servers) <= 1001
    with pytest.raises(NoTurnError):
        async with turns.turn(SLOW, "t"):
            raise AssertionError


async def test_a_server_that_told_one_to_wait_is_not_asked_by_the_next(web: ScriptedWeb, client: Client) -> None:
    web.pages |= {"/a": Page(status=429, headers={"retry-after": "60"}), "/b": Page(b"text")}
    getter = client.getter()
    with pytest.raises(ThrottledError):
        await client.get("/a", getter=getter)
    with pytest.raises(NoTurnError):
        await client.get("/b", getter=getter)
    assert len(web.visits) == 1


async def test_large_contents_are_in_memory_two_at_a_time_and_waiting_for_room_is_not_the_servers_time(
    web: ScriptedWeb, client: Client
) -> None:
    client.bounds = replace(QUICK, large_bytes=1000, large=1, whole_s=0.5)
    web.pages |= {"/large": Page(b"x" * 2000), "/small": Page(b"x" * 1000)}
    getter, held, release = client.getter(), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with getter.get(client.asked("/large")):
            held.set()
            await release.wait()

    holder = asyncio.create_task(hold())
    await held.wait()
    small = await client.get("/small", getter=getter)
    assert small is not None and len(small.content) == 1000
    waiting = asyncio.create_task(client.get("/large", getter=getter))
    await asyncio.sleep(0.8)
    assert not waiting.done()
    release.set()
    found = await waiting
    await holder
    assert found is not None and len(found.content) == 2000


async def test_a_cancelled_fetch_gives_back_its_turn(web: ScriptedWeb, client: Client) -> None:
    client.bounds = replace(QUICK, each=1, share=1, at_once=1)
    web.pages |= {"/slow": Page(lambda: iter(lambda: b"x", None)), "/a": Page(b"text")}
    getter = Getter(client.bounds, client.names)
    task = asyncio.create_task(client.get("/slow", getter=getter))
    while not web.visits:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = await client.get("/a", getter=getter)
    assert found is not None and found.content == b"text"
