"""Time and chance as values, so that tests need neither."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from livedex.pipeline.runtime.backoff import exponential_backoff_s


def utc_now() -> datetime:
    """Now, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """What waits and what measures.

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

    def backoff_s(self, attempt: int, *, base_s: float = 0.4, cap_s: float = 5.0) -> float:
        """Seconds to wait before the next try: exponential with full jitter.

        Args:
            attempt: tries that have failed, >= 1.
            base_s, cap_s: the most that is waited after the first, and after any.
        """
        return self.uniform(0.0, exponential_backoff_s(base_s, attempt, cap_s))
