"""How many values a JSON text holds, found out before any of them is made: a body of a few
megabytes can hold millions, at a hundred bytes each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_VALUES = 300_000
MAX_FIELDS = 64
MAX_ITEMS = 10_000
_BLOCK_BYTES = 1 << 20
_SIGNS = (b",", b"[", b"{", b":")


def exceeds_value_limit(raw: bytes, most: int = MAX_VALUES) -> bool:
    """Return whether a JSON text has more than `most` commas, colons and opening brackets outside
    of its strings.

    For what is no JSON the answer means nothing.
    """
    if sum(map(raw.count, _SIGNS)) <= most:
        return False
    found, in_text, escapes = 0, False, 0
    for begin in range(0, len(raw), _BLOCK_BYTES):
        end = min(begin + _BLOCK_BYTES, len(raw))
        block = np.frombuffer(raw, np.uint8, end - begin, begin)
        quotes = np.flatnonzero(block == ord('"'))
        kept = quotes[~_escaped(block, quotes, escapes)]
        escapes = _trailing(raw[max(0, end - 4096) : end])
        if in_text and not len(kept):
            continue  # all of it stands in one string
        signs = np.flatnonzero(
            (block == ord(",")) | (block == ord(":")) | (block == ord("[")) | (block == ord("{"))
        )
        before = np.searchsorted(kept, signs)
        found += int(np.count_nonzero(before % 2 == int(in_text)))
        if found > most:
            return True
        in_text ^= bool(len(kept) % 2)
    return False


def _escaped(block: NDArray[np.uint8], quotes: NDArray[np.intp], escapes: int) -> NDArray[np.bool_]:
    """Return which quotes follow an odd number of backslashes (`escapes`: before the block)."""
    if not len(quotes):
        return np.zeros(0, bool)
    others = np.flatnonzero(block != ord("\\"))
    place = np.searchsorted(others, quotes)
    before = np.where(place > 0, others[place - 1], -1 - escapes)
    return np.asarray((quotes - before - 1) % 2 == 1)


def _trailing(end: bytes) -> int:
    """The number of backslashes at an end, or one that is as odd."""
    return len(end) - len(end.rstrip(b"\\"))


def oversize_reason(value: object, most_items: int = MAX_ITEMS) -> str | None:
    """Return what is too much in the fields of an object, so that checking them can be left out;
    None where nothing is.
    """
    if not isinstance(value, dict):
        return None
    if len(value) > MAX_FIELDS:
        return f"an object has at most {MAX_FIELDS} fields here"
    if any(isinstance(each, list) and len(each) > most_items for each in value.values()):
        return f"a list has at most {most_items} entries here"
    return None
