"""A clock that tests move."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from livedex.pipeline.runtime.clock import Clock

T = TypeVar("T")
START = datetime(2026, 1, 5, 12, 0, 0, tzinfo=UTC)


class FakeClock:
    """Time that stands still until it is moved.

    Attributes:
        now_s: seconds since the start.
        slept: every wait, in order.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self.clock = Clock(
            monotonic=lambda: self.now_s,
            sleep=self.sleep,
            now=lambda: START + timedelta(seconds=self.now_s),
            uniform=lambda low, high: high,
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now_s + seconds, next(self._numbers), future))
        await future

    async def run(self, work: Awaitable[T], *, at_most_s: float = 10_000.0) -> T:
        """Move from one wait to the next until the work has ended."""
        task = asyncio.ensure_future(work)
        while True:
            await self.settle()
            if task.done():
                return task.result()
            assert self._sleepers, "it waits for something else than time"
            assert self._sleepers[0][0] <= at_most_s, "it takes too long"
            self._wake_next()

    async def advance(self, seconds: float) -> None:
        """Move on by so much, waking whoever sleeps until then."""
        end = self.now_s + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._wake_next()
            await self.settle()
        self.now_s = end
        await self.settle()

    async def settle(self) -> None:
        """Let everybody run until all wait."""
        for _ in range(60):
            await asyncio.sleep(0)

    def _wake_next(self) -> None:
        at, _, future = heapq.heappop(self._sleepers)
        self.now_s = max(self.now_s, at)
        if not future.done():
            future.set_result(None)
