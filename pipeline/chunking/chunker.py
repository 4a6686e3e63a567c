"""From a text to its chunks: sections first, then content-defined runs of paragraphs.

Nothing but white space is lost and nothing is doubled, for any text; every chunk is
`text[start:end]`; time is linear but for sorting.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from livedex.pipeline.chunking.blocks import Block, plain_blocks
from livedex.pipeline.chunking.boundaries import LINES, SENTENCES, boundary_positions
from livedex.pipeline.chunking.content_defined import PROSE, SOLID, Span, group_units, split_to_size
from livedex.pipeline.chunking.excluded_spans import merge_spans, split_at_excluded
from livedex.pipeline.chunking.graphemes import is_grapheme_start, is_visible
from livedex.pipeline.chunking.include_directives import include_directive_spans
from livedex.pipeline.chunking.light_markup import LIGHT_MARKUP_PARSERS
from livedex.pipeline.chunking.line_formats import line_blocks, record_blocks, row_blocks
from livedex.pipeline.chunking.markdown import markdown_blocks
from livedex.pipeline.chunking.rst import rst_blocks
from livedex.pipeline.model import Chunk, TextFormat

_READERS: dict[str, Callable[[str, int], list[Block]]] = {
    "markdown": markdown_blocks,
    "rst": rst_blocks,
    "plain": plain_blocks,
    "lines": line_blocks,
    "records": record_blocks,
    "rows": row_blocks,
    **LIGHT_MARKUP_PARSERS,
}
_BY_LINES = frozenset({"lines", "records", "rows"})
_SMALL = 3.5  # a run below this part of the size joins a neighbour
# and in a section of few runs, below this one: there it cannot go on from join to join
_SMALL_OF_FEW = 2.2
_FEW = 4
_LONG = 2.5  # a paragraph above this part of the size is taken as sentences


@dataclass(slots=True)
class _Section:
    heading: tuple[str, ...]
    blocks: list[Block] = field(default_factory=list)

    @property
    def is_bare(self) -> bool:
        """Whether it is headings alone."""
        return all(block.kind == "heading" for block in self.blocks)


def chunk_text(
    text: str,
    *,
    format: TextFormat,
    size: int = 1400,
    overlap: int = 0,
    start: int = 0,
    front: Span | None = None,
    left_out: Sequence[Span] = (),
) -> list[Chunk]:
    """Cut a text.

    Args:
        text: the whole text.
        format: decides what a heading is, and where a sentence ends.
        size: the most characters of a chunk, >= 100.
        overlap: the most that whole sentences repeated from the chunk before add, 0 <= overlap <
            size.
        start: the first code point to cut, behind front matter.
        front: front matter that is text all the same, before `start`.
        left_out: spans that are no text, in order; no chunk holds any of them.

    Returns:
        The chunks in order, none of them blank.
    """
    chunks: list[Chunk] = []
    sections = _joined(_sections(_READERS[format](text, start)), size)
    if front is not None:
        sections = itertools.chain([_Section((), [Block(*front, "solid")])], sections)
    left_out = merge_spans(left_out, include_directive_spans(text, start, format))
    for section in sections:
        for blocks in (
            split_at_excluded(text, section.blocks, left_out) if left_out else (section.blocks,)
        ):
            spans = _visible(text, _section_spans(text, blocks, size), size)
            chunks += [Chunk(a, b, section.heading) for a, b in spans]
    return (
        _overlapping(text, chunks, overlap, LINES if format in _BY_LINES else SENTENCES)
        if overlap
        else chunks
    )


def _sections(blocks: Sequence[Block]) -> Iterator[_Section]:
    path: list[tuple[int, str]] = []
    section = _Section(())
    for block in blocks:
        if block.kind == "heading":
            if section.blocks:
                yield section
            while path and path[-1][0] >= block.level:
                path.pop()
            path.append((block.level, block.title))
            section = _Section(tuple(title for _, title in path if title))
        section.blocks.append(block)
    if section.blocks:
        yield section


def _joined(sections: Iterator[_Section], size: int) -> Iterator[_Section]:
    """A heading without a body goes along with the section below it."""
    held: _Section | None = None
    for section in sections:
        if held is not None:
            span = (
                section.blocks[-1].end - held.blocks[0].start
                if section.is_bare
                else section.blocks[0].end - held.blocks[0].start
            )
            if (
                section.heading[: len(held.heading)] == held.heading
                and len(section.heading) > len(held.heading)
                and span <= size // 2
            ):
                section.blocks[:0] = held.blocks
            else:
                yield held
        held = None
        if section.is_bare:
            held = section
        else:
            yield section
    if held is not None:
        yield held


def _section_spans(text: str, blocks: Sequence[Block], size: int) -> list[Span]:
    if blocks[-1].end - blocks[0].start <= size:
        return [(blocks[0].start, blocks[-1].end)]
    units: list[Span] = []
    long = max(int(size / _LONG), 100)
    heading: Block | None = None
    for block in blocks:
        if block.kind == "heading":
            heading = block if heading is None else Block(heading.start, block.end, "heading")
            continue
        room = size - (block.start - heading.start) if heading else size
        most = size if block.kind == "solid" else long
        if block.end - block.start <= min(most, room):
            parts = [(block.start, block.end)]
        else:
            parts = (
                split_to_size(text, (block.start, block.end), size, SOLID)
                if block.kind == "solid"
                else _sentences(text, block, size)
            )
        if heading is not None:
            if parts[0][1] - heading.start <= size:
                parts[0] = (heading.start, parts[0][1])
            else:
                units += split_to_size(text, (heading.start, heading.end), size, PROSE)
            heading = None
        units += parts
    if heading is not None:
        units += split_to_size(text, (heading.start, heading.end), size, PROSE)
    return _merged([(run[0][0], run[-1][1]) for run in group_units(text, units, size)], size)


def _sentences(text: str, block: Block, size: int) -> list[Span]:
    """A long paragraph as sentences, each of them cut further where it does not fit."""
    spans: list[Span] = []
    edges = [
        block.start,
        *(
            at
            for at in boundary_positions(SENTENCES, text, block.start, block.end)
            if is_grapheme_start(text, at)
        ),
        block.end,
    ]
    for a, b in itertools.pairwise(edges):
        end = a + len(text[a:b].rstrip())
        if end > a:
            spans += (
                [(a, end)] if end - a <= size else split_to_size(text, (a, end), size, PROSE[1:])
            )
    return spans


def _merged(spans: list[Span], size: int) -> list[Span]:
    """Join a small run with the smaller of its neighbours, where the two fit."""
    small = int(size / (_SMALL_OF_FEW if len(spans) <= _FEW else _SMALL))
    merged: list[Span] = []
    n = 0
    while n < len(spans):
        start, end = spans[n]
        n += 1
        if end - start < small:
            behind = end - merged[-1][0] if merged else size + 1
            ahead = spans[n][1] - start if n < len(spans) else size + 1
            if ahead <= size and ahead <= behind:
                spans[n] = (start, spans[n][1])
                continue
            if behind <= size:
                merged[-1] = (merged[-1][0], end)
                continue
        merged.append((start, end))
    return merged


def _visible(text: str, spans: list[Span], size: int) -> list[Span]:
    """Without spans that show nothing: they join the one before where they fit."""
    found: list[Span] = []
    for start, end in spans:
        if (text[start] < "\u007f" and text[start] > " ") or is_visible(text[start:end]):
            found.append((start, end))
        elif found and end - found[-1][0] <= size:
            found[-1] = (found[-1][0], end)
    return found


def _overlapping(
    text: str, chunks: list[Chunk], overlap: int, kind: re.Pattern[str]
) -> list[Chunk]:
    """Let each chunk begin with the last whole sentences (or lines) of the one before in its
    section.
    """
    found = chunks[:1]
    for before, chunk in itertools.pairwise(chunks):
        start = chunk.start
        if before.heading == chunk.heading and not text[before.end : chunk.start].strip():
            first = max(before.start, chunk.start - overlap)
            inside = [
                at
                for at in boundary_positions(kind, text, before.start, before.end)
                if at >= first and is_grapheme_start(text, at)
            ]
            start = (
                inside[0]
                if inside
                else (before.start if before.start >= chunk.start - overlap else chunk.start)
            )
        found.append(Chunk(start, chunk.end, chunk.heading))
    return found
