"""Fuse the ranks and scores of the retrievers into one ranking.

Equal scores are ordered by `Place`: by document, then by position in it; weighted ones as the first
retriever has them, before that. A retriever that did not find a place adds nothing to it. Where
only one retriever ran, its weight is 1, so that its own order stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

Key = TypeVar("Key")


class ChunkPosition(NamedTuple):
    """A chunk: document, position in it, and the document's number in the database; ordered."""

    document_id: str
    position: int
    doc_id: int


def reciprocal_rank_fusion(
    results: Sequence[Sequence[ChunkPosition]], *, k: int
) -> list[tuple[ChunkPosition, float]]:
    """Sum 1 / (k + rank) over the retrievers, ranks from 1.

    Args:
        results: each retriever's places, best first, each at most once in a retriever.
        k: > 0; the greater, the less the first ranks stand out.

    Returns:
        Every place once with its sum, best first.

    Source: Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion", SIGIR 2009.
    """
    fused: dict[ChunkPosition, float] = {}
    for result in results:
        for rank, place in enumerate(result, 1):
            fused[place] = fused.get(place, 0.0) + 1.0 / (k + rank)
    return _ordered(fused)


def weighted_score_fusion(
    results: Sequence[tuple[Mapping[ChunkPosition, float], float]],
) -> list[tuple[ChunkPosition, float]]:
    """Sum weight * score over the retrievers.

    Args:
        results: each retriever's scores in [0, 1], best first, and its weight in [0, 1]:
            similarities,
            negative ones as 0, and keyword scores as
            shares of the best.

    Returns:
        Every place once with its sum, best first; of equal sums first what stands first in the
        first retriever: similarities that count as 0 are not equal.
    """
    fused: dict[ChunkPosition, float] = {}
    for scores, weight in results:
        for place, score in scores.items():
            fused[place] = fused.get(place, 0.0) + weight * score
    return _ordered(fused, {place: n for n, place in enumerate(results[0][0])})


def min_max_fusion(
    results: Sequence[tuple[Mapping[ChunkPosition, float], float]],
) -> list[tuple[ChunkPosition, float]]:
    """Sum weight * score over the retrievers, each one's scores scaled from its worst to its best.

    Args:
        results: each retriever's scores, and its weight in [0, 1].

    Returns:
        Every place once with its sum, best first. If a retriever gives all places one score, it
        counts as 1.
    """
    fused: dict[ChunkPosition, float] = {}
    for scores, weight in results:
        for place, share in scaled(scores).items():
            fused[place] = fused.get(place, 0.0) + weight * share
    return _ordered(fused)


def scaled(scores: Mapping[Key, float]) -> dict[Key, float]:
    """Scale scores to [0, 1], from the worst to the best; 1 where all are equal."""
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=0.0)
    if high <= low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def _ordered(
    fused: Mapping[ChunkPosition, float], first: Mapping[ChunkPosition, int] | None = None
) -> list[tuple[ChunkPosition, float]]:
    before = first or {}
    return sorted(
        fused.items(), key=lambda item: (-item[1], before.get(item[0], len(before)), item[0])
    )
