"""When something that could not be told is tried again.

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
    """Seconds until the next attempt, a little more or less, so that what failed together does not
    come again together.

    Args:
        failed: attempts that failed, >= 1.
        chance: gives a number between two.
    """
    return RETRY_DELAYS_S[min(failed, len(RETRY_DELAYS_S)) - 1] * chance(1 - _JITTER, 1 + _JITTER)
