"""How long another side asks to be left alone."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST_RETRY_AFTER_S = 86_400.0


def parse_retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number or an HTTP date; None for a past
    date and for what is neither.

    Source: RFC 9110, section 10.2.3.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()
    return min(seconds, _LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) and seconds > 0 else None
