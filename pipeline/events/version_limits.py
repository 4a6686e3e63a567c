"""Bound the versions that clients assign: one far in the future would block all later changes.

JSON has no integers above 2^53 in many languages (JavaScript reads 9007199254740993 as
9007199254740992), so a version may also be a string of digits.
"""

from __future__ import annotations

import re
import time

MAX_CLOCK_SKEW_NS = 24 * 3600 * 1_000_000_000
"""A version is at most the present time in nanoseconds since 1970, plus a day."""

MAX_VERSION_DIGITS = 19
_DIGITS = re.compile(rf"[0-9]{{1,{MAX_VERSION_DIGITS}}}")


def max_version() -> int:
    """Return the greatest version that a client may assign now."""
    return time.time_ns() + MAX_CLOCK_SKEW_NS


def parse_version(value: object) -> object:
    """Return a version in JSON as a whole number (7, 7.0 or "7"); other values unchanged.

    Args:
        value: from JSON.
    """
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    # JSON has no integers: 1.0 is a whole number
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def version_problem(version: object) -> str | None:
    """Return why a version is invalid; None if it is valid.

    Args:
        version: from a client.
    """
    if isinstance(version, bool) or not isinstance(version, int):
        return "a version is a whole number, or a string of digits"
    if version < 0:
        return "a version is 0 or more"
    if version > max_version():
        return (
            "a version is at most the present time in nanoseconds since 1970, and a day: a "
            "greater one would keep every later change of the document out"
        )
    return None
