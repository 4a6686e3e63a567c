"""Retry schedule for failed deliveries.

Source: Standard Webhooks 1.0.0, "Deliverability and reliability": the example schedule, three days
and four hours in all.
"""

from __future__ import annotations

import random
from collections.abc import Callable

RETRY_DELAYS_S = (5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""After the first failed attempt, the second, and so on."""

_JITTER = 0.1


def retry_delay_s(
    failed: int, *, chance: Callable[[float, float], float] = random.uniform
) -> float:
    """Return the seconds until the next attempt, with jitter against simultaneous retries.

    Args:
        failed: failed attempts, >= 1.
        chance: returns a number between two bounds.
    """
    return RETRY_DELAYS_S[min(failed, len(RETRY_DELAYS_S)) - 1] * chance(1 - _JITTER, 1 + _JITTER)
