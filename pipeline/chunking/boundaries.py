"""Where a text that is too long may be cut, from the best kind of place to the worst."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SENTENCE = re.compile(
    r"(?:(?<=[.!?…])|(?<=[.!?…][\"')\]”’»]))\s++(?=\S)|(?<=[。！？])(?=[^\s。！？」』”’])|\n[^\S\n"
    r"]*+(?=(?:[-*+>|#•]|\d+[.)])\s?\S)"
)
_LINE = re.compile(r"\n\s*+")
_CLAUSE = re.compile(r"(?<=[,;:])\s++(?=\S)|(?<=[、，；：])(?=\S)")
_WORD = re.compile(r"\s++")

_MARK = (
    r"!-/:-@\[-^`{-~\u00a1-\u00bf\u2010-\u2027\u2030-\u205e\u2200-\u22ff\u2500-\u257f\u3001-"
    r"\u3020\uff01-\uff0f\uff1a-\uff20"
)
_STRUCTURE = re.compile(
    r"(?<=[;,}\])>|&])(?<!\d,)(?=[^\s;,}\])>|&\"'`])|(?<=[;}\])])(?=[\s\S])(?![;,}\])])|(?"
    r"<=\d,)(?=[^\s\d,;}\])])"
)
_MARKED = re.compile(
    rf"(?<=[{_MARK}])(?<!\\)(?<!\d[.,:'’/-])(?=[^\s{_MARK}])|(?<=[^\s{_MARK}])(?"
    rf"=[<({{\[\u2018\u201c\u3008\u300a\u300c\u300e\uff08])|(?<=\d[,;/])(?=\d)"
)
_EDGE = re.compile(
    rf"(?<=[a-z])(?=[A-Z])|(?<=_)(?=[^\W_])|(?<=[^\s{_MARK}])(?<!\d)(?=[{_MARK}])|(?"
    r"<=\d[.:'’-])(?=\d)"
)
_DIGIT = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")

SENTENCES, LINES, CLAUSES, WORDS = _SENTENCE, _LINE, _CLAUSE, _WORD
STRUCTURE, MARKS, IDENTIFIER_EDGES, DIGITS = _STRUCTURE, _MARKED, _EDGE, _DIGIT
"""Places in a text without spaces (minified JSON or code): behind a comma or bracket; behind any
mark; inside an identifier; beside a number.
"""


def boundary_positions(kind: re.Pattern[str], text: str, start: int, end: int) -> Iterator[int]:
    """Where the next piece would begin, for each place of this kind inside the span, in order;
    white space at its end is none.
    """
    for found in kind.finditer(text, start, end):
        if start < found.end() < end:
            yield found.end()
