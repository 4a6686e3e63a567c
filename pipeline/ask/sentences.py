"""Sentences of a text, with their places."""

from __future__ import annotations

import re
from typing import NamedTuple

# a sentence ends at its punctuation before white space, at CJK punctuation, or with its line
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]?(?=\s)|(?<=[。！？])|\n")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|#{1,6}|>|\|)?\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|e\.g|i\.e|etc|cf|vs|approx|no|nr|bzw|ca|Dr|Mr|Mrs|St))\.$"
)


class Sentence(NamedTuple):
    """A sentence and where it begins in its text, in code points."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


def split_sentences(text: str) -> list[Sentence]:
    """Split a text into sentences, without the marks of lists, headings and quotes before them."""
    found: list[Sentence] = []
    begin = 0
    for match in [*_END.finditer(text), None]:
        end = len(text) if match is None else match.end()
        part = text[begin:end]
        if match is not None and match[0] != "\n" and _ABBREVIATION.search(part.rstrip("\"'”’)]")):
            continue
        mark = _BULLET.match(part)
        skipped = mark.end() if mark else 0
        inner = part[skipped:].rstrip()
        if any(map(str.isalnum, inner)):
            found.append(Sentence(inner, begin + skipped))
        begin = end
    return found
