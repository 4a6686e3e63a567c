"""Parser for the header Retry-After."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_LONGEST_RETRY_AFTER_S = 86_400.0


def parse_retry_after_s(value: str | None, now: datetime) -> float | None:
    """Return the seconds in a Retry-After header; None: missing, invalid, or a past date.

    Source: RFC 9110, section 10.2.3.

    Args:
        value: the header, a number of seconds or an HTTP date.
        now: aware.
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
