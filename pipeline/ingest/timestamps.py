"""Timestamps of senders as versions: nanoseconds since 1970, with their precision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def epoch_ns(at: datetime) -> int:
    """Return nanoseconds since 1970; 0 for earlier times.

    Args:
        at: aware.
    """
    return max((at - _EPOCH) // _MICROSECOND, 0) * 1000


def precision_ns(at: datetime) -> int:
    """Return the precision of a timestamp in nanoseconds: a second, a millisecond or a microsecond,
    judged by its trailing zeros.
    """
    if at.microsecond == 0:
        return 1_000_000_000
    return 1_000_000 if at.microsecond % 1000 == 0 else 1000
