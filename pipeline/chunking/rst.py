"""Blocks of reStructuredText: titles with lines under (and over) them, levels in the order of their
first use.

Source: Docutils' reStructuredText specification, "Sections".
"""

from __future__ import annotations

import itertools
import string
from typing import Any

from livedex.pipeline.chunking.blocks import Block, truncate_title

_MARKS = frozenset(string.punctuation)
_DRAWN = 3  # marks of a line, at least
_SHORT = 4  # a shorter line must be as long as its title


def rst_blocks(text: str, start: int = 0) -> list[Block]:
    """The blocks of a text from `start` on, in order."""
    whole = text[start:].split("\n")
    offsets = [*itertools.accumulate((len(line) + 1 for line in whole), initial=start)]
    lines = [line.rstrip() for line in whole]
    drawn = {
        n
        for n, line in enumerate(lines)
        if line and line[0] in _MARKS and len(line) >= _DRAWN and line == line[0] * len(line)
    }
    levels: dict[str, int] = {}
    blocks: list[Block] = []
    begin: int | None = None  # of the lines with text on them that were passed last
    n, titled = 0, 0  # titled: the line below the last title

    def block_of(first: int, last: int, *heading: Any) -> Block:
        """From the first visible character of a line to the last one of another."""
        indent = len(whole[first]) - len(whole[first].lstrip())
        return Block(offsets[first] + indent, offsets[last] + len(lines[last]), *heading)

    while n < len(lines):
        count, style = (
            _title_at(lines, drawn, n, titled) if n in drawn or n + 1 in drawn else (0, "")
        )
        if begin is not None and (count or not lines[n]):
            blocks.append(block_of(begin, n - 1))
            begin = None
        if count:
            title = truncate_title(lines[n + 1 if count == 3 else n].strip())
            titled = n + count
            blocks.append(
                block_of(
                    n, n + count - 1, "heading", levels.setdefault(style, len(levels) + 1), title
                )
            )
        elif begin is None and lines[n]:
            begin = n
        n += count or 1
    if begin is not None:
        blocks.append(block_of(begin, n - 1))
    return blocks


def _title_at(lines: list[str], drawn: set[int], n: int, titled: int) -> tuple[int, str]:
    """How many lines the title at line n takes (0: it is none), and its style.

    Args:
        lines: without white space at their ends.
        drawn: those that are one mark of punctuation three times or more, and nothing else.
        n: number of the line, from 0.
        titled: the line below the last title; a title may stand there without a blank line.
    """
    first = lines[n]
    if not first or n + 1 >= len(lines):
        return 0, ""
    if n in drawn:
        if (
            n + 2 < len(lines)
            and lines[n + 2] == first
            and lines[n + 1]
            and len(first) >= min(len(lines[n + 1]), _SHORT)
        ):
            return 3, first[0] * 2
        return 0, ""
    under = lines[n + 1]
    if first[0].isspace() or (n > titled and lines[n - 1]) or n + 1 not in drawn:
        return 0, ""
    return (2, under[0]) if len(under) >= min(len(first), _SHORT) else (0, "")
