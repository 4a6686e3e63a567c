"""Citation markers: `[1]` or `[1, 2]` in an answer, and never in the text of a source."""

from __future__ import annotations

import re
from typing import NamedTuple

# any kind of bracket around numbers, in any script, could be read as a marker
_LOOKALIKE = re.compile(
    r"[\[［【〔〖⟦❲](?=[\s\d,;.:–—-]{0,40}[\]］】〕〗⟧❳])([\s\d,;.:–—-]*\d[\s\d,;.:–—-]*)[\]］】〕〗⟧❳]"
)
_MARKER = re.compile(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6}){0,50})\s*\]")
_NUMBER = re.compile(r"\d+")


class CheckedText(NamedTuple):
    """A text whose markers all name a source.

    Attributes:
        text: without the markers that named none.
        numbers: of the sources that are cited, in the order of the text, each once.
        dropped: how many citations named no source.
    """

    text: str
    numbers: tuple[int, ...]
    dropped: int


def without_markers(text: str) -> str:
    """Replace brackets around numbers by parentheses, so that no text of a source is a marker."""
    return _LOOKALIKE.sub(lambda found: f"({found[1]})", text)


def check_markers(text: str, sources: int) -> CheckedText:
    """Remove citations of sources that there are not.

    Args:
        text: the answer of the model.
        sources: how many there are, numbered from 1.
    """
    numbers: dict[int, None] = {}
    dropped = 0

    def checked(found: re.Match[str]) -> str:
        nonlocal dropped
        given = [int(number) for number in _NUMBER.findall(found[1])]
        known = [number for number in dict.fromkeys(given) if 1 <= number <= sources]
        dropped += sum(1 for number in given if not 1 <= number <= sources)
        numbers.update(dict.fromkeys(known))
        return "".join(f"[{number}]" for number in known)

    cleaned = _MARKER.sub(checked, text)
    return CheckedText(re.sub(r" +(?=[.,;:!?](?:\s|$))", "", cleaned), tuple(numbers), dropped)
