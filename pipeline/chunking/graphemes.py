"""Where a text may be cut without tearing a character as people see it.

Source: Unicode Standard Annex 29, simplified: marks, joiners, variation selectors, modifiers of emoji and pairs of regional indicators.
"""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"
_FLAGS = range(0x1F1E6, 0x1F200)
_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)


def may_begin(text: str, at: int) -> bool:
    """Whether a chunk may begin at this code point, 0 < at < len(text)."""
    char, before = text[at], text[at - 1]
    if char < "\u0300" and before != _JOINER:
        return True
    number = ord(char)
    if char == _JOINER or before == _JOINER or number in _TONES or number in _TAGS or unicodedata.category(char)[0] == "M":
        return False
    if number in _FLAGS:
        first = at
        while first > max(0, at - 64) and ord(text[first - 1]) in _FLAGS:
            first -= 1
        return (at - first) % 2 == 0
    return True


def is_visible(text: str) -> bool:
    """Whether there is anything in it besides white space and signs that show nothing."""
    return any(not char.isspace() and unicodedata.category(char) not in ("Cf", "Cc") for char in text)
