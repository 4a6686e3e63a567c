"""Where a text that is too long may be cut, from the best kind of place to the worst."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SENTENCE = re.compile(
    r"(?:(?<=[.!?…])|(?<=[.!?…][\"')\]”’»]))\s+(?=\S)|(?<=[。！？])(?=[^\s。！？」』”’])|\n[^\S\n]*(?=(?:[-*+>|#•]|\d+[.)])\s?\S)"
)
_LINE = re.compile(r"\n\s*(?=\S)")
_CLAUSE = re.compile(r"(?<=[,;:])\s+(?=\S)|(?<=[、，；：])(?=\S)")
_WORD = re.compile(r"\s+(?=\S)")

SENTENCES, LINES, CLAUSES, WORDS = _SENTENCE, _LINE, _CLAUSE, _WORD


def places(kind: re.Pattern[str], text: str, start: int, end: int) -> Iterator[int]:
    """Where the next piece would begin, for each place of this kind inside the span, in order."""
    for found in kind.finditer(text, start, end):
        if start < found.end() < end:
            yield found.end()
