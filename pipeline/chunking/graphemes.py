"""Where a text may be cut without tearing a character as people see it.

Source: Unicode Standard Annex 29, simplified: marks, joiners, variation selectors, modifiers of
emoji and pairs of regional indicators.
"""

from __future__ import annotations

import re
import unicodedata

_JOINER = "\u200d"
_FLAGS = re.compile("[\U0001f1e6-\U0001f1ff]{2,}")
_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)


def is_grapheme_start(text: str, at: int) -> bool:
    """Whether a chunk may begin at this code point, 0 < at < len(text), flags aside: see
    `inside_flags`.
    """
    char, before = text[at], text[at - 1]
    if char < "\u0300" and before != _JOINER:
        return True
    number = ord(char)
    return not (
        char == _JOINER
        or before == _JOINER
        or number in _TONES
        or number in _TAGS
        or unicodedata.category(char)[0] == "M"
    )


def flag_interiors(text: str, start: int, end: int) -> set[int]:
    """The places in text[start:end] between the two halves of a flag; `start` is none of them."""
    return {
        at
        for run in _FLAGS.finditer(text, start, end)
        for at in range(run.start() + 1, run.end(), 2)
    }


def is_visible(text: str) -> bool:
    """Whether there is anything in it besides white space and signs that show nothing."""
    return any(
        not char.isspace() and unicodedata.category(char) not in ("Cf", "Cc") for char in text
    )
