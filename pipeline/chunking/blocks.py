"""A text as a list of blocks: headings, paragraphs, and solid blocks (code, tables) that are not
cut where they fit.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

MAX_TITLE_CHARACTERS = 300
_PARAGRAPH = re.compile(r"\S[^\n]*+(?:\n[^\S\n]*+\S[^\n]*+)*+")


class Block(NamedTuple):
    """`text[start:end]`, without white space around it.

    Attributes:
        level: of a heading, from 1; 0 for everything else.
        title: of a heading.
    """

    start: int
    end: int
    kind: Literal["heading", "paragraph", "solid"] = "paragraph"
    level: int = 0
    title: str = ""


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The same span without white space at its ends; empty where there is nothing else."""
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    if left == len(piece):
        return start, start
    return start + left, start + len(piece.rstrip())


def truncate_title(title: str) -> str:
    """The first `MAX_TITLE_CHARACTERS` code points of a title: each chunk of the section carries
    it, however long the line is.
    """
    return title[:MAX_TITLE_CHARACTERS].rstrip()


def plain_blocks(text: str, start: int = 0) -> list[Block]:
    """Paragraphs between blank lines; no headings."""
    spans = (found.span() for found in _PARAGRAPH.finditer(text, start))
    return [Block(a, a + len(text[a:b].rstrip())) for a, b in spans]
