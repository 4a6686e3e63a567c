"""Injectable clock and random source."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from livedex.pipeline.runtime.backoff import EMBEDDING_REQUEST, Backoff


def utc_now() -> datetime:
    """Return the current time, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """Waits and measures time.

    Attributes:
        monotonic: seconds that only grow; for durations.
        sleep: waits for seconds, >= 0.
        now: aware, UTC; for dates in headers and in the health.
        uniform: a random number between two bounds; for jitter.
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], datetime] = utc_now
    uniform: Callable[[float, float], float] = random.uniform

    def backoff_s(self, attempt: int, schedule: Backoff = EMBEDDING_REQUEST) -> float:
        """Return the seconds before the next try: a schedule with full jitter.

        Args:
            attempt: failed tries, >= 1.
            schedule: upper bounds of the delays.
        """
        return self.uniform(0.0, schedule.delay_s(attempt))
