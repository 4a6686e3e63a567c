"""The difference between a document's stored chunks and its new manifest, with few changed rows.

Rows that show the same passages in the same order keep their positions (a longest increasing
subsequence of the old positions). All others are deleted or inserted at sparse positions, so that
an insert renumbers no row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from livedex.pipeline.model import ManifestEntry

POSITION_STEP = 1 << 32  # between two positions that are assigned together


class ChunkRow(NamedTuple):
    """A stored chunk.

    Attributes:
        position: orders the chunks of the document; sparse.
        entry: passage, gap, length and heading path.
    """

    position: int
    entry: ManifestEntry


@dataclass(slots=True)
class ChunkDiff:
    """Changes to the chunk rows of a document.

    Attributes:
        delete: positions of deleted rows.
        insert: new rows.
        update: rows that keep their position but change gap, length or heading.
    """

    delete: list[int] = field(default_factory=list)
    insert: list[ChunkRow] = field(default_factory=list)
    update: list[ChunkRow] = field(default_factory=list)


def diff_chunks(old: Sequence[ChunkRow], new: Sequence[ManifestEntry]) -> ChunkDiff:
    """Return the changes that turn the stored rows into the manifest, in O(n log n).

    Args:
        old: the stored rows, by position.
        new: the manifest, in order.
    """
    kept = _matching_rows(old, new)
    swap = ChunkDiff()
    staying = set(kept.values())
    swap.delete = [row.position for i, row in enumerate(old) if i not in staying]
    at = 0
    below: int | None = None
    while at < len(new):
        if at in kept:
            row = old[kept[at]]
            if row.entry != new[at]:
                swap.update.append(ChunkRow(row.position, new[at]))
            below = row.position
            at += 1
            continue
        end = at
        while end < len(new) and end not in kept:
            end += 1
        above = old[kept[end]].position if end < len(new) else None
        positions = _positions_between(below, above, end - at)
        if positions is None:
            return ChunkDiff(
                [row.position for row in old],
                [ChunkRow(POSITION_STEP * (i + 1), entry) for i, entry in enumerate(new)],
            )
        swap.insert += [ChunkRow(p, entry) for p, entry in zip(positions, new[at:end], strict=True)]
        below = positions[-1]
        at = end
    return swap


def _matching_rows(old: Sequence[ChunkRow], new: Sequence[ManifestEntry]) -> dict[int, int]:
    """Return the old row that each new entry keeps: new index to old index, both increasing."""
    head = 0
    while head < min(len(old), len(new)) and old[head].entry.passage_id == new[head].passage_id:
        head += 1
    tail = 0
    while (
        tail < min(len(old), len(new)) - head
        and old[-1 - tail].entry.passage_id == new[-1 - tail].passage_id
    ):
        tail += 1
    kept = {i: i for i in range(head)}
    kept |= {len(new) - 1 - i: len(old) - 1 - i for i in range(tail)}
    places: dict[int, list[int]] = defaultdict(list)
    for i in range(len(old) - tail - 1, head - 1, -1):
        places[old[i].entry.passage_id].append(i)
    pairs = [
        (j, places[new[j].passage_id].pop())
        for j in range(head, len(new) - tail)
        if places.get(new[j].passage_id)
    ]
    kept.update(_longest_increasing_subsequence(pairs))
    return kept


def _longest_increasing_subsequence(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence that also increases in the second member (patience
    sorting).
    """
    tops: list[int] = []
    top_pairs: list[int] = []
    before: list[int] = []
    for n, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        before.append(top_pairs[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(place)
            top_pairs.append(n)
        else:
            tops[pile], top_pairs[pile] = place, n
    run: list[tuple[int, int]] = []
    n = top_pairs[-1] if top_pairs else -1
    while n >= 0:
        run.append(pairs[n])
        n = before[n]
    return run[::-1]


def _positions_between(below: int | None, above: int | None, count: int) -> list[int] | None:
    """Return `count` evenly spread positions between two others; None: not enough room."""
    if below is None and above is None:
        return [POSITION_STEP * (i + 1) for i in range(count)]
    if above is None:
        assert below is not None
        return [below + POSITION_STEP * (i + 1) for i in range(count)]
    if below is None:
        return [above - POSITION_STEP * (count - i) for i in range(count)]
    room = above - below - 1
    if room < count:
        return None
    return [below + (above - below) * (i + 1) // (count + 1) for i in range(count)]
