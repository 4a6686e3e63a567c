"""Times that senders give, as versions: nanoseconds since 1970, and how exactly they are known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def epoch_ns(at: datetime) -> int:
    """Nanoseconds since 1970; of what lies before, 0.

    Args:
        at: aware.
    """
    return max((at - _EPOCH) // _MICROSECOND, 0) * 1000


def precision_ns(at: datetime) -> int:
    """How many nanoseconds a written time stands for: a second, a millisecond or a microsecond, by
    the zeros at its end.
    """
    if at.microsecond == 0:
        return 1_000_000_000
    return 1_000_000 if at.microsecond % 1000 == 0 else 1000
