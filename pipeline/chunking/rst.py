"""Blocks of reStructuredText: titles with lines under (and over) them, levels in the order of their first use.

Source: Docutils' reStructuredText specification, "Sections".
"""

from __future__ import annotations

import re

from pipeline.chunking.blocks import Block, clipped, trimmed

_LINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$")
_SHORT = 4  # a shorter line must be as long as its title


def rst_blocks(text: str, start: int = 0) -> list[Block]:
    """The blocks of a text from `start` on, in order."""
    lines = text[start:].split("\n")
    offsets, at = [], start
    for line in lines:
        offsets.append(at)
        at += len(line) + 1
    offsets.append(len(text))
    levels: dict[str, int] = {}
    blocks: list[Block] = []
    begin: int | None = None

    def close(end: int) -> None:
        nonlocal begin
        if begin is not None:
            a, b = trimmed(text, offsets[begin], offsets[end])
            if a < b:
                blocks.append(Block(a, b))
        begin = None

    n = 0
    while n < len(lines):
        count, style = _title_at(lines, n)
        if count:
            close(n)
            a, b = trimmed(text, offsets[n], offsets[n + count] if n + count < len(lines) else len(text))
            title = clipped(lines[n + 1 if count == 3 else n].strip())
            blocks.append(Block(a, b, "heading", levels.setdefault(style, len(levels) + 1), title))
            n += count
        elif not lines[n].strip():
            close(n)
            n += 1
        else:
            begin = n if begin is None else begin
            n += 1
    close(len(lines))
    return blocks


def _title_at(lines: list[str], n: int) -> tuple[int, str]:
    """How many lines the title at line n takes (0: it is none), and its style."""
    first = lines[n].rstrip()
    if not first or n + 1 >= len(lines):
        return 0, ""
    if _LINE.match(first):
        if n + 2 < len(lines) and lines[n + 2].rstrip() == first and lines[n + 1].strip() and len(lines[n + 1].rstrip()) <= len(first):
            return 3, first[0] * 2
        return 0, ""
    under = lines[n + 1].rstrip()
    if first[0].isspace() or (n > 0 and lines[n - 1].strip()) or not _LINE.match(under):
        return 0, ""
    return (2, under[0]) if len(under) >= min(len(first), _SHORT) else (0, "")
