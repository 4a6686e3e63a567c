"""One server that is slow, away or asks for patience holds up no fetches but its own."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest

from livedex.pipeline.errors import NotScheduledError, RateLimitedError, RetryableError
from livedex.pipeline.fetch.bounds import FetchLimits
from livedex.pipeline.fetch.fetch_limiter import MAX_EVENT_WAIT_S, MAX_HOST_WAIT_S, FetchLimiter
from livedex.pipeline.fetch.fetcher import HttpFetcher
from tests.support.http.scripted_website import WebResponse, WebServer
from tests.unit.fetching.client import QUICK, FetchClient

SLOW, OTHER, THIRD = (("https", f"{name}.test", 443) for name in ("slow", "other", "third"))
FEW = FetchLimits(at_once=4, max_per_origin=2, share=3, slot_wait_s=0.01, total_timeout_s=30.0)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turns(clock: Clock) -> FetchLimiter:
    return FetchLimiter(FEW, clock)


async def test_a_slow_server_and_a_busy_tenant_have_their_share_and_no_more(
    turns: FetchLimiter,
) -> None:
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(turns.turn(SLOW, "t"))
        with pytest.raises(NotScheduledError) as none:
            await held.enter_async_context(turns.turn(SLOW, "u"))
        assert none.value.retry_after_s is not None
        await held.enter_async_context(turns.turn(OTHER, "t"))
        with pytest.raises(NotScheduledError):
            await held.enter_async_context(turns.turn(THIRD, "t"))
        await held.enter_async_context(turns.turn(THIRD, "u"))
        with pytest.raises(NotScheduledError):
            await held.enter_async_context(turns.turn(THIRD, "v"))
    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        pass


async def test_a_turn_that_failed_to_be_had_takes_none_away(turns: FetchLimiter) -> None:
    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        for _ in range(10):
            with pytest.raises(NotScheduledError):
                async with turns.turn(SLOW, "t"):
                    raise AssertionError
        async with turns.turn(OTHER, "t"):
            pass


async def test_the_more_wait_for_a_server_the_later_they_come_back_and_they_wait_for_nothing_here(
    turns: FetchLimiter,
) -> None:
    async def refused() -> float:
        with pytest.raises(NotScheduledError) as none:
            async with turns.turn(SLOW, "t"):
                raise AssertionError
        assert none.value.retry_after_s is not None
        return none.value.retry_after_s

    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        waits = await asyncio.gather(*(refused() for _ in range(500)))
        assert min(waits) < 1 < max(waits) == 10
    async with turns.turn(SLOW, "t"), turns.turn(SLOW, "t"):
        assert await refused() < 1


async def test_an_unavailable_server_is_probed_by_one_with_backoff_and_others_fail_fast(
    turns: FetchLimiter, clock: Clock
) -> None:
    asked_at = []
    for _ in range(4000):
        try:
            async with turns.turn(SLOW, "t"):
                asked_at.append(clock.now)
                if len(asked_at) > 3:
                    with pytest.raises(RetryableError) as away:  # another one meanwhile
                        async with turns.turn(SLOW, "t"):
                            raise AssertionError
                    assert (
                        not isinstance(away.value, NotScheduledError)
                        and away.value.first_retry_delay_s
                    )
            turns.record_no_response(SLOW)
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


async def test_patience_that_was_asked_for_is_had_in_steps_that_are_not_too_long(
    turns: FetchLimiter, clock: Clock
) -> None:
    turns.record_retry_after(SLOW, 10**6)
    with pytest.raises(NotScheduledError) as none:
        async with turns.turn(SLOW, "t"):
            raise AssertionError
    assert none.value.retry_after_s == MAX_EVENT_WAIT_S
    clock.now += MAX_HOST_WAIT_S - 10
    with pytest.raises(NotScheduledError) as none:
        async with turns.turn(SLOW, "t"):
            raise AssertionError
    assert none.value.retry_after_s == 10
    clock.now += 10
    async with turns.turn(SLOW, "t"):
        pass


async def test_what_is_known_of_servers_does_not_grow_for_ever(
    turns: FetchLimiter, clock: Clock
) -> None:
    turns.record_retry_after(SLOW, 3000)
    for n in range(5000):
        async with turns.turn(("http", f"{n}.test", 80), "t"):
            pass
    assert len(turns._servers) <= 1001
    with pytest.raises(NotScheduledError):
        async with turns.turn(SLOW, "t"):
            raise AssertionError


async def test_a_server_that_told_one_to_wait_is_not_asked_by_the_next(
    web: WebServer, client: FetchClient
) -> None:
    web.pages |= {
        "/a": WebResponse(status=429, headers={"retry-after": "60"}),
        "/b": WebResponse(b"text"),
    }
    getter = client.getter()
    with pytest.raises(RateLimitedError):
        await client.get("/a", getter=getter)
    with pytest.raises(NotScheduledError):
        await client.get("/b", getter=getter)
    assert len(web.requests) == 1


async def test_two_large_bodies_at_a_time_and_the_wait_for_a_slot_is_not_the_servers_time(
    web: WebServer, client: FetchClient
) -> None:
    client.bounds = replace(QUICK, large_body_bytes=1000, large=1, total_timeout_s=0.5)
    web.pages |= {"/large": WebResponse(b"x" * 2000), "/small": WebResponse(b"x" * 1000)}
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


async def test_a_cancelled_fetch_gives_back_its_turn(web: WebServer, client: FetchClient) -> None:
    client.bounds = replace(QUICK, max_per_origin=1, share=1, at_once=1)
    web.pages |= {
        "/slow": WebResponse(lambda: iter(lambda: b"x", None)),
        "/a": WebResponse(b"text"),
    }
    getter = HttpFetcher(client.bounds, client.names)
    task = asyncio.create_task(client.get("/slow", getter=getter))
    while not web.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    found = await client.get("/a", getter=getter)
    assert found is not None and found.content == b"text"
