"""Blocks of texts whose lines are what sentences are elsewhere: tables with separators, logs, code
and data.
"""

from __future__ import annotations

import csv
import itertools
import re

from livedex.pipeline.chunking.blocks import Block, plain_blocks, trim_span, truncate_title

_SEPARATORS = ",;\t|"
# that a quoted field goes over; a quote that never ends would take all that follows
_ROW_LINES = 100
_MOST_HEADER = 10_000  # characters
_NUMBER = re.compile(r"[-+]?[\d.,:/ %$€-]+")
_RECORD_CHARACTERS = 1_400  # of a line of a log with what is indented below it


def line_blocks(text: str, start: int = 0) -> list[Block]:
    """Return paragraphs as solid blocks: where they do not fit they are cut between lines."""
    return [block._replace(kind="solid") for block in plain_blocks(text, start)]


def record_blocks(text: str, start: int = 0) -> list[Block]:
    """Return the records of a log: lines, each with the indented lines below it (a stack trace)."""
    blocks: list[Block] = []
    for a, b in _lines(text, start):
        indented = text[a] in " \t"
        a, b = trim_span(text, a, b)
        if a == b:
            continue
        if indented and blocks and b - blocks[-1].start <= _RECORD_CHARACTERS:
            blocks[-1] = Block(blocks[-1].start, b, "solid")
        else:
            blocks.append(Block(a, b, "solid"))
    return blocks


def row_blocks(text: str, start: int = 0) -> list[Block]:
    """Return the rows of a table with separators; the row of column names, where there is one, is
    the heading of the others.
    """
    rows = [
        span for span in (trim_span(text, a, b) for a, b in _rows(text, start)) if span[0] < span[1]
    ]
    blocks = [Block(a, b, "solid") for a, b in rows]
    if len(rows) > 1 and (columns := _columns(text[slice(*rows[0])], text[slice(*rows[1])])):
        blocks[0] = Block(*rows[0], "heading", 1, truncate_title(", ".join(columns)))
    return blocks


def _lines(text: str, start: int) -> list[tuple[int, int]]:
    """The lines that are not empty."""
    lines = text[start:].split("\n")
    ends = itertools.accumulate((len(line) + 1 for line in lines), initial=start)
    return [(at, at + len(line)) for at, line in zip(ends, lines, strict=False) if line]


def _rows(text: str, start: int) -> list[tuple[int, int]]:
    """Lines, joined where a quoted field goes over several."""
    lines = _lines(text, start)
    if '"' not in text:
        return lines
    is_odd = [text.count('"', a, b) % 2 == 1 for a, b in lines]
    odd = [n for n, one in enumerate(is_odd) if one]
    rows, n, next_odd = [], 0, 0
    while n < len(lines):
        last = n
        if is_odd[n]:
            while next_odd < len(odd) and odd[next_odd] <= n:
                next_odd += 1
            if next_odd < len(odd) and odd[next_odd] - n <= _ROW_LINES:
                last = odd[next_odd]
        rows.append((lines[n][0], lines[last][1]))
        n = last + 1
    return rows


def _columns(first: str, second: str) -> list[str]:
    """The names of the columns, if the first row looks like names: texts, all different, as many
    as the fields below.
    """
    if len(first) > _MOST_HEADER:
        return []
    separator = max(_SEPARATORS, key=first.count)
    if separator not in first:
        return []
    try:
        names, fields = (
            next(csv.reader([row[:_MOST_HEADER]], delimiter=separator), [])
            for row in (first, second)
        )
    except csv.Error:
        return []
    names = [name.strip() for name in names]
    named = [name for name in names if name]
    is_header = (
        len(named) >= max(2, len(names) // 2)
        and len(set(named)) == len(named)
        and not any(map(_NUMBER.fullmatch, named))
    )
    return [" ".join(name.split()) for name in named] if is_header and len(fields) >= 2 else []
