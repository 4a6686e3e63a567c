"""Requests at once: never more than the limit in all processes together, and room that is not used
goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from livedex.pipeline.access import concurrency_limiter as concurrency
from livedex.pipeline.access.concurrency_limiter import ConcurrencyLimiter, open_concurrency_limiter
from livedex.pipeline.errors import OutageError


class Room:
    """Counts what is taken, as the database does for all processes."""

    def __init__(self) -> None:
        self.taken, self.trips, self.error = 0, 0, None

    async def take_slot(self, credential: str, most: int) -> bool:
        self.trips += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        if self.taken >= most:
            return False
        self.taken += 1
        return True

    async def release_slots(self, slots: Mapping[str, int]) -> None:
        if self.error:
            raise self.error
        self.taken -= sum(slots.values())

    async def renew_slots(self) -> None: ...


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "_LOOK_AGAIN_S", 0.001)


async def test_no_more_than_the_limit_are_under_way() -> None:
    limiter = ConcurrencyLimiter(Room(), 3)
    assert (
        sorted(await asyncio.gather(*(limiter.enter("k") for _ in range(10))))
        == [False] * 7 + [True] * 3
    )
    limiter.leave("k")
    assert await limiter.enter("k")


async def test_requests_that_follow_each_other_cost_one_round_trip() -> None:
    room = Room()
    limiter = ConcurrencyLimiter(room, 3)
    for _ in range(50):
        assert await limiter.enter("k")
        limiter.leave("k")
    assert (room.trips, room.taken) == (1, 1)


async def test_what_is_not_used_goes_back_and_nothing_is_remembered() -> None:
    room = Room()
    limiter = ConcurrencyLimiter(room, 5)
    for _ in range(4):
        assert await limiter.enter("k")
    for _ in range(3):
        limiter.leave("k")
    await limiter.release_unused()
    assert room.taken == 4  # used since it was looked at last
    await limiter.release_unused()
    assert room.taken == 1
    limiter.leave("k")
    await limiter.release_unused()
    await limiter.release_unused()
    assert (room.taken, limiter._held) == (0, {})


async def test_another_process_gets_room_as_soon_as_it_is_given_back() -> None:
    room = Room()
    one, other = ConcurrencyLimiter(room, 1), ConcurrencyLimiter(room, 1)
    assert await one.enter("k") and not await other.enter("k")
    one.leave("k")
    await one.release_unused()
    await one.release_unused()
    assert await other.enter("k")


async def test_what_could_not_be_given_back_is_given_back_later() -> None:
    room = Room()
    limiter = ConcurrencyLimiter(room, 1)
    assert await limiter.enter("k")
    limiter.leave("k")
    room.error = OutageError("database", "away")
    for _ in range(2):
        try:
            await limiter.release_unused()
        except OutageError:
            continue
    room.error = None
    await limiter.release_unused()
    assert room.taken == 0


async def test_a_request_that_is_cancelled_while_it_waits_takes_nothing() -> None:
    room = Room()
    limiter = ConcurrencyLimiter(room, 1)
    assert await limiter.enter("k")
    waiting = asyncio.create_task(limiter.enter("k"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    limiter.leave("k")
    assert await limiter.enter("k")


async def test_at_its_end_everything_is_given_back() -> None:
    room = Room()
    async with open_concurrency_limiter(room, 3) as limiter:
        assert await limiter.enter("k")
        limiter.leave("k")
    assert room.taken == 0
