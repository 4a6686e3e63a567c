"""Cut spans by their content, so that an edit moves only the cuts next to it.

A sequence of units that is too long is cut at the unit whose hash is smallest, and each part again,
until every part fits. The hash is that of the unit's own beginning, so nothing but the content
decides. The recursion is a walk over the tree of smallest hashes (a Cartesian tree), which is built
in linear time.
"""

from __future__ import annotations

import itertools
import re
import zlib
from bisect import bisect_right
from collections.abc import Sequence

from livedex.pipeline.chunking.blocks import trim_span
from livedex.pipeline.chunking.boundaries import (
    CLAUSES,
    DIGITS,
    IDENTIFIER_EDGES,
    LINES,
    MARKS,
    SENTENCES,
    STRUCTURE,
    WORDS,
    boundary_positions,
)
from livedex.pipeline.chunking.graphemes import flag_interiors, is_grapheme_start

Span = tuple[int, int]

_LOOK = 64  # characters of a unit that its hash is made of
_WINDOW = 12  # characters that decide about a cut between words or letters


def group_units(text: str, units: Sequence[Span], size: int) -> list[list[Span]]:
    """Group units, none of them longer than `size`, into runs that fit.

    Args:
        text: the whole text.
        units: spans in order.
        size: the most characters from the begin of a run to its end.
    """
    runs: list[list[Span]] = []
    if not units:
        return runs
    hashes = _hashes(text, units)
    left, right, root = _tree(hashes)
    todo = [(0, len(units), root)]
    while todo:
        first, end, node = todo.pop()
        if units[end - 1][1] - units[first][0] <= size:
            runs.append(list(units[first:end]))
            continue
        todo.append((node, end, right[node]))
        todo.append((first, node, left[node]))
    return runs


def _hashes(text: str, units: Sequence[Span]) -> list[tuple[int, int, int]]:
    """A key for each unit: the hash of its beginning, then that of all of it with the unit before,
    then its place in a row of equal units.

    Nothing counts from the begin of the text: of many units that begin alike (rows of a log,
    entries of a form) an edit must not rank all that follow it anew.
    """
    found = []
    before, repeats = 0, 0
    for start, end in units:
        whole = zlib.crc32(text[start:end].encode("utf-8", "surrogatepass"))
        repeats = repeats + 1 if whole == before else 0
        pair = zlib.crc32(whole.to_bytes(4, "big"), before)
        found.append(
            (_beginning(text, start, end, whole), pair, zlib.crc32(repeats.to_bytes(4, "big")))
        )
        before = whole
    return found


def _beginning(text: str, start: int, end: int, whole: int) -> int:
    return (
        whole
        if end - start <= _LOOK
        else zlib.crc32(text[start : start + _LOOK].encode("utf-8", "surrogatepass"))
    )


def _tree(hashes: Sequence[tuple[int, int, int]]) -> tuple[list[int], list[int], int]:
    """The Cartesian tree over units 1..n-1 (a cut stands before each): left and right children,
    and the root; 0 for none.
    """
    left, right = [0] * len(hashes), [0] * len(hashes)
    stack: list[int] = []
    for n in range(1, len(hashes)):
        last = 0
        while stack and hashes[stack[-1]] > hashes[n]:
            last = stack.pop()
        left[n] = last
        if stack:
            right[stack[-1]] = n
        stack.append(n)
    return left, right, stack[0] if stack else 0


def split_to_size(text: str, span: Span, size: int, kinds: Sequence[re.Pattern[str]]) -> list[Span]:
    """Cut a span into units of at most `size`, at the best kind of place that there is.

    Args:
        text: the whole text.
        span: the part of the text that is cut.
        size: in characters.
        kinds: of places, best first; letters are the last resort.
    """
    done: list[Span] = []
    todo: list[tuple[Span, int]] = [(span, 0)]
    while todo:
        (start, end), kind = todo.pop()
        if end - start <= size:
            done.append((start, end))
        elif kind == len(kinds):
            done += _at_letters(text, start, end, size)
        else:
            parts = _parts(text, start, end, kinds[kind], size)
            todo += [(part, kind + 1) for part in reversed(parts)]
    return done


def _parts(text: str, start: int, end: int, kind: re.Pattern[str], size: int) -> list[Span]:
    cuts = [at for at in boundary_positions(kind, text, start, end) if is_grapheme_start(text, at)]
    if kind not in (SENTENCES, LINES):
        cuts = _chosen(text, start, end, cuts, size)
    edges = [start, *cuts, end]
    spans = (trim_span(text, a, b) for a, b in itertools.pairwise(edges))
    return [(a, b) for a, b in spans if a < b]


def _chosen(text: str, start: int, end: int, cuts: Sequence[int], size: int) -> list[int]:
    """Of many places, those that cut into pieces of at most `size` where that is possible: the
    smallest hash in the second half of each window.
    """
    found = []
    at, n = start, 0
    while end - at > size:
        first, last = bisect_right(cuts, at + size // 2, n), bisect_right(cuts, at + size, n)
        if first == last:
            first = bisect_right(cuts, at, n)
            last = max(last, first + 1)
            if first >= len(cuts):
                break
        n = min(range(first, min(last, len(cuts))), key=lambda i: (_window(text, cuts[i]), -i))
        at = cuts[n]
        found.append(at)
    return found


def _at_letters(text: str, start: int, end: int, size: int) -> list[Span]:
    """Cut where there is no better place than between two letters."""
    edges = [start]
    while end - edges[-1] > size:
        at = edges[-1]
        torn = flag_interiors(text, at, at + size + 1)
        best = _best_letter(text, range(at + size // 2 + 1, at + size + 1), torn)
        if best is None:
            best = _best_letter(text, range(at + 1, at + size // 2 + 1), torn)
        edges.append(at + size if best is None else best)
    edges.append(end)
    spans = (trim_span(text, a, b) for a, b in itertools.pairwise(edges))
    return [(a, b) for a, b in spans if a < b]


def _best_letter(text: str, places: range, torn: set[int]) -> int | None:
    """Of the places that tear no character, the one of the smallest hash (of equal ones the last);
    None where all of them do.
    """
    piece = text[places.start : places.stop + _WINDOW].encode("utf-32-le", "surrogatepass")
    hashes = [zlib.crc32(piece[n : n + 4 * _WINDOW]) for n in range(0, 4 * len(places), 4)]
    for n in sorted(range(len(places)), key=lambda n: (hashes[n], -n)):
        if places[n] not in torn and is_grapheme_start(text, places[n]):
            return places[n]
    return None


def _window(text: str, at: int) -> int:
    return zlib.crc32(text[at : at + _WINDOW].encode("utf-8", "surrogatepass"))


_UNSPACED = (STRUCTURE, MARKS, IDENTIFIER_EDGES, DIGITS)
PROSE = (SENTENCES, LINES, CLAUSES, WORDS, *_UNSPACED)
SOLID = (LINES, WORDS, *_UNSPACED)
