"""Requests a minute: never more than the limit, few round trips, and one that is refused knows
when to come again.
"""

from __future__ import annotations

import asyncio

import pytest

from livedex.pipeline.access.rate_limiter import RateLimiter


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bucket:
    """One bucket for all, as the database counts it."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.tokens, self.at, self.trips = clock, -1.0, clock(), 0

    async def take_rate(self, credential: str, per_minute: int, wanted: int) -> tuple[int, float]:
        await asyncio.sleep(0)
        self.trips += 1
        full = (
            per_minute
            if self.tokens < 0
            else min(per_minute, self.tokens + (self.clock() - self.at) * per_minute / 60)
        )
        granted = min(wanted, int(full))
        self.tokens, self.at = full - granted, self.clock()
        return granted, self.tokens


async def admitted(limiter: RateLimiter, requests: int) -> int:
    return sum([(await limiter.take("k")).allowed for _ in range(requests)])


@pytest.mark.parametrize("per_minute", [1, 7, 60, 600, 6000])
async def test_a_minute_s_requests_may_come_at_once_and_not_one_more(per_minute: int) -> None:
    clock = Clock()
    limiter = RateLimiter(Bucket(clock), per_minute, clock)
    assert await admitted(limiter, 2 * per_minute + 10) == per_minute
    clock.now += 30
    assert await admitted(limiter, 2 * per_minute + 10) == per_minute // 2


async def test_two_processes_share_the_limit() -> None:
    clock = Clock()
    bucket = Bucket(clock)
    one, other = RateLimiter(bucket, 100, clock), RateLimiter(bucket, 100, clock)
    assert sum([await admitted(limiter, 1) for limiter in (one, other) * 200]) == 100


async def test_most_requests_cost_no_round_trip_and_refusals_cost_none() -> None:
    clock = Clock()
    bucket = Bucket(clock)
    limiter = RateLimiter(bucket, 600, clock)
    assert await admitted(limiter, 600) == 600
    assert bucket.trips == 20
    assert await admitted(limiter, 1000) == 0
    assert bucket.trips == 21


async def test_many_at_once_take_one_share_after_the_other() -> None:
    clock = Clock()
    bucket = Bucket(clock)
    limiter = RateLimiter(bucket, 600, clock)
    assert (
        sum(
            standing.allowed
            for standing in await asyncio.gather(*(limiter.take("k") for _ in range(60)))
        )
        == 60
    )
    assert bucket.trips == 2


async def test_whoever_comes_again_when_told_is_let_in() -> None:
    clock = Clock()
    limiter = RateLimiter(Bucket(clock), 10, clock)
    assert await admitted(limiter, 10) == 10
    for _ in range(5):
        refused = await limiter.take("k")
        assert not refused.allowed and refused.remaining == 0 and refused.reset_s >= 1
        clock.now += refused.reset_s
        assert (await limiter.take("k")).allowed


async def test_what_remains_is_told() -> None:
    clock = Clock()
    limiter = RateLimiter(Bucket(clock), 60, clock)
    standings = [await limiter.take("k") for _ in range(4)]
    assert [(s.remaining, s.reset_s) for s in standings] == [(59, 1), (58, 2), (57, 3), (56, 4)]


async def test_credentials_do_not_share() -> None:
    clock = Clock()

    class Buckets:
        def __init__(self) -> None:
            self.of: dict[str, Bucket] = {}

        async def take_rate(
            self, credential: str, per_minute: int, wanted: int
        ) -> tuple[int, float]:
            return await self.of.setdefault(credential, Bucket(clock)).take_rate(
                credential, per_minute, wanted
            )

    limiter = RateLimiter(Buckets(), 5, clock)
    assert [sum([(await limiter.take(name)).allowed for _ in range(9)]) for name in ("a", "b")] == [
        5,
        5,
    ]
