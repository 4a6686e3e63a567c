"""Part blocks where something stands that is no text: no chunk goes across it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from livedex.pipeline.chunking.blocks import Block, trim_span

Span = tuple[int, int]

_WORD = re.compile(r"\w")


def merge_spans(spans: Sequence[Span], others: Sequence[Span]) -> Sequence[Span]:
    """Return both lists of spans as one, in order and apart from each other."""
    if not others:
        return spans
    found: list[Span] = []
    for start, end in sorted([*spans, *others]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def split_at_excluded(
    text: str, blocks: Sequence[Block], left_out: Sequence[Span]
) -> Iterator[list[Block]]:
    """Yield runs of blocks without anything that is left out inside or between; what holds no word
    there goes along with it.

    Args:
        text: the whole text.
        blocks: of the text, in order.
        left_out: spans in order, apart from each other.
    """
    run: list[Block] = []
    n = bisect_right(left_out, blocks[0].start, key=lambda span: span[1])
    for block in blocks:
        start, is_parted = block.start, False
        while n < len(left_out) and left_out[n][0] < block.end:
            a, b = left_out[n]
            if a >= start:
                _add(text, run, block, start, a, is_parted=True)
            if run:
                yield run
                run = []
            start, is_parted = max(start, b), True
            if b > block.end:
                break
            n += 1
        if start < block.end:
            _add(text, run, block, start, block.end, is_parted=is_parted)
    if run:
        yield run


def _add(
    text: str, run: list[Block], block: Block, start: int, end: int, *, is_parted: bool
) -> None:
    if not is_parted:
        run.append(block)
        return
    start, end = trim_span(text, start, end)
    if start < end and _WORD.search(text, start, end):
        run.append(block._replace(start=start, end=end))
