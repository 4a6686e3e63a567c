"""The bounds of versions that others give: a version far ahead would keep every later change of its
document out, for good.

JSON has no integers above 2^53 in many languages (JavaScript reads 9007199254740993 as
9007199254740992), so a version may be written as a string of digits, too.
"""

from __future__ import annotations

import re
import time

MAX_CLOCK_SKEW_NS = 24 * 3600 * 1_000_000_000
"""A version is at most the time in nanoseconds since 1970, and a day."""

MAX_VERSION_DIGITS = 19
_DIGITS = re.compile(rf"[0-9]{{1,{MAX_VERSION_DIGITS}}}")


def max_version() -> int:
    """The greatest version that anybody may give now."""
    return time.time_ns() + MAX_CLOCK_SKEW_NS


def parse_version(value: object) -> object:
    """A version as JSON may have it, as a whole number: 7, 7.0 and "7" are the same; anything else
    as it is.
    """
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    # JSON knows no integers: 1.0 is one, too
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def version_problem(version: object) -> str | None:
    """Why nobody may give this version; None: it is one."""
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
