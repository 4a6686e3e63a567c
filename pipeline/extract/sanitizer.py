"""One rule for what no database, protocol or hash can take: NUL goes, torn surrogates are joined or
become U+FFFD.

It holds for every text, and for keys and values of metadata at any depth.
"""

from __future__ import annotations

import math
from datetime import date, datetime, time
from typing import Any

_AT_ONCE = 1 << 20  # characters
MAX_DEPTH = 32


def sanitize_text(text: str) -> str:
    """The text without NUL and with whole characters only."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    return (
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if _has_torn(text)
        else text
    )


def sanitize_optional_text(text: str | None) -> str | None:
    """Apply `clean_text` to a text; return anything else unchanged for the caller to reject."""
    return sanitize_text(text) if isinstance(text, str) else text


def _has_torn(text: str) -> bool:
    """Whether there are surrogates in it: to encode it is the fastest way to find out."""
    if text.isascii():
        return False
    try:
        for at in range(0, len(text), _AT_ONCE):
            text[at : at + _AT_ONCE].encode()
    except UnicodeEncodeError:
        return True
    return False


def sanitize_json(value: Any, depth: int = 0) -> Any:
    """The value as JSON that can be stored: texts cleaned, keys as texts, dates as ISO 8601,
    numbers that are not finite as null.

    Args:
        value: any JSON value.
        depth: how deep it stands; below `MAX_DEPTH` values become texts.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else _shown(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if depth < MAX_DEPTH and isinstance(value, dict):
        return {_shown(key): sanitize_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, set | frozenset):  # in an order that does not change from run to run
        value = sorted(value, key=_shown)
    if depth < MAX_DEPTH and isinstance(value, list | tuple):
        return [sanitize_json(item, depth + 1) for item in value]
    return _shown(value)


def _shown(value: object) -> str:
    """The value as a text; a whole number of thousands of digits in hexadecimal, and what is
    nested too deep for any text as dots.
    """
    try:
        return sanitize_text(str(value))
    except ValueError:  # Source: Python, "Integer string conversion length limitation"
        return f"{value:#x}" if isinstance(value, int) else "…"
    except RecursionError:
        return "…"
