"""Markdown from the structure of documents."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_HEADING_LEVEL = 6
_SPACES = re.compile(r"[ \t\u00a0]+")
_BLOCK_START = re.compile(r"^(\s*)(#{1,6}\s|[-*+]\s|>|\d{1,9}[.)]\s|```|~~~|={3,}\s*$|-{3,}\s*$)")


def heading(text: str, level: int) -> str:
    """Return a heading; empty for an empty text."""
    line = " ".join(text.split())
    return f"{'#' * min(max(level, 1), MAX_HEADING_LEVEL)} {line}" if line else ""


def paragraph(text: str) -> str:
    """Return a paragraph that Markdown does not read as a heading, list, quote or fence."""
    lines = [_SPACES.sub(" ", line).strip() for line in text.split("\n")]
    return "\n".join(_BLOCK_START.sub(r"\1\\\2", line) for line in lines if line)


def list_item(text: str, depth: int = 0) -> str:
    """Return an item of a list."""
    line = " ".join(text.split())
    return f"{'  ' * depth}- {line}" if line else ""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row is its head; empty where all cells are."""
    filled = [[cell_text(cell) for cell in row] for row in rows]
    filled = [row for row in filled if any(row)]
    if not filled:
        return ""
    width = max(map(len, filled))
    while width > 1 and not any(row[width - 1] for row in filled if len(row) >= width):
        width -= 1
    padded = [(row + [""] * width)[:width] for row in filled]
    lines = ["| " + " | ".join(row) + " |" for row in padded]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


def cell_text(text: str) -> str:
    """Return a text for a cell: one line, with bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def join_blocks(blocks: Sequence[str]) -> str:
    """Join blocks with blank lines; items of one list stay together."""
    found: list[str] = []
    for block in blocks:
        if not block:
            continue
        if found and block.lstrip().startswith("- ") and found[-1].lstrip().startswith("- "):
            found[-1] += "\n" + block
        else:
            found.append(block)
    return "\n\n".join(found)
