"""Which of the ranked chunks become hits: duplicates collapsed, and documents limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from livedex.pipeline.search.ranking import RankedChunk


def collapse_passages(ranked: Sequence[RankedChunk]) -> list[RankedChunk]:
    """Keep the best place of each passage; the others are named in its `also_in`."""
    first: dict[int, RankedChunk] = {}
    others: dict[int, list[str]] = {}
    for chunk in ranked:
        if chunk.passage_id not in first:
            first[chunk.passage_id] = chunk
        elif chunk.place.document_id != first[chunk.passage_id].place.document_id:
            others.setdefault(chunk.passage_id, []).append(chunk.place.document_id)
    return [
        replace(chunk, also_in=tuple(dict.fromkeys(others.get(passage_id, ()))))
        for passage_id, chunk in first.items()
    ]


def limit_per_document(ranked: Sequence[RankedChunk], most: int) -> list[RankedChunk]:
    """Keep at most so many chunks of each document, in order."""
    taken: dict[int, int] = {}
    found = []
    for chunk in ranked:
        count = taken.get(chunk.place.doc_id, 0)
        if count < most:
            taken[chunk.place.doc_id] = count + 1
            found.append(chunk)
    return found


def group_by_document(ranked: Sequence[RankedChunk], most: int) -> list[list[RankedChunk]]:
    """Group chunks by document, groups ordered by their best chunk.

    Args:
        ranked: the chunks, best first.
        most: chunks of a group.
    """
    groups: dict[int, list[RankedChunk]] = {}
    for chunk in ranked:
        group = groups.setdefault(chunk.place.doc_id, [])
        if len(group) < most:
            group.append(chunk)
    return list(groups.values())
