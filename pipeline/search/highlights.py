"""Highlights: the words of the query in the content of a hit, and excerpts around them.

A word of the content matches if PostgreSQL's dictionaries give it a lexeme of the query, so that
`returned` is found for `returns`, as in the search itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.keyword_analyzer import analyze_query, analyze_text
from livedex.pipeline.store.postgres.statements import sql

MAX_FRAGMENTS = 3
FRAGMENT_CHARACTERS = 240
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_EXACT = re.compile(r"[\w+\-#.@/:=&\\]+")
_EDGES = ".,:;!?/=-&\\"


class Fragment(TypedDict):
    """An excerpt: `text` is the content from code point `start`; `spans` are pairs of start and end
    of matching words, counted in `text`.
    """

    text: str
    start: int
    spans: list[list[int]]


def content_words(text: str) -> list[str]:
    """Return the words of a text, case folded."""
    return [word.casefold() for word in _WORD.findall(text)]


async def read_lexemes(
    connection: Connection, config: str, contents: Sequence[str]
) -> dict[str, frozenset[str]]:
    """Read the lexemes of every word of some texts.

    Args:
        connection: in a transaction of the tenant.
        config: PostgreSQL's text search configuration.
        contents: texts, in the order of the result.
    """
    words = sorted({word for content in contents for word in content_words(content)})
    analyzed = [analyze_text(word)[0] for word in words]
    rows: Sequence[Any] = await connection.fetch(sql("word_lexemes"), config, analyzed)
    return {word: frozenset(row["lexemes"]) for word, row in zip(words, rows, strict=True)}


def matching_spans(
    content: str, query: str, wanted: Collection[str], lexemes: Mapping[str, frozenset[str]]
) -> list[tuple[int, int]]:
    """Find the words of a query in a content.

    Args:
        content: the text of the passage.
        query: for words that no dictionary knows.
        wanted: lexemes of the query.
        lexemes: of each word of the content, case folded.

    Returns:
        Start and end of each match in code points, in order, none overlapping another.
    """
    found = [
        match.span()
        for match in _WORD.finditer(content)
        if not lexemes.get(match[0].casefold(), frozenset()).isdisjoint(wanted)
    ]
    identifiers = {token[1:] for token in analyze_query(query).exact}
    if identifiers:
        for match in _EXACT.finditer(content):
            inner = match[0].strip(_EDGES)
            if inner and inner.casefold() in identifiers:
                start = match.start() + match[0].index(inner)
                found.append((start, start + len(inner)))
    return _merged(found)


def fragments(content: str, spans: Sequence[tuple[int, int]]) -> list[Fragment]:
    """Cut the excerpts that hold most matches, in the order of the content.

    Without a match, the beginning of the content is the one excerpt.
    """
    if not spans:
        return [{"text": content[:FRAGMENT_CHARACTERS], "start": 0, "spans": []}]
    left = list(spans)
    windows: list[tuple[int, int]] = []
    while left and len(windows) < MAX_FRAGMENTS:
        best = max(left, key=lambda span: (_covered(left, span[0]), -span[0]))
        last = max(end for start, end in left if start >= best[0] and _fits(best[0], end))
        window = _window(content, best[0], max(last, best[1]))
        windows.append(window)
        left = [span for span in left if not (window[0] <= span[0] and span[1] <= window[1])]
        left = [span for span in left if span != best]
    return [
        {
            "text": content[low:high],
            "start": low,
            "spans": [[a - low, b - low] for a, b in spans if low <= a and b <= high],
        }
        for low, high in _merged(windows)
    ]


def _fits(start: int, end: int) -> bool:
    return end - start <= FRAGMENT_CHARACTERS


def _covered(spans: Sequence[tuple[int, int]], start: int) -> int:
    return sum(1 for a, b in spans if a >= start and _fits(start, b))


def _window(content: str, first: int, last: int) -> tuple[int, int]:
    """Widen a range to the size of a fragment, and to the borders of words."""
    room = max(0, FRAGMENT_CHARACTERS - (last - first))
    low, high = max(0, first - room // 2), min(len(content), last + room - room // 2)
    while 0 < low < first and not content[low - 1].isspace():
        low += 1
    while last < high < len(content) and not content[high].isspace():
        high -= 1
    return low, high


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
