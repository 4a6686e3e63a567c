"""Newer documents rank higher: a share of the score halves with each half-life of age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from livedex.pipeline.search.fusion import scaled
from livedex.pipeline.search.ranking import RankedChunk
from livedex.pipeline.search.request import Recency

_DAY_S = 86_400.0


def rank_by_recency(
    ranked: Sequence[RankedChunk],
    times: Mapping[int, datetime | None],
    recency: Recency,
    now: datetime,
) -> list[RankedChunk]:
    """Order chunks by relevance and age.

    Args:
        ranked: the chunks, best first.
        times: of each document, by its number; None where it is unknown: infinitely old.
        recency: the field, half-life and weight that the request gives.
        now: what ages are counted from.

    Returns:
        The chunks with new fused scores in [0, 1], best first.
    """
    relevance = scaled({n: chunk.fused_score for n, chunk in enumerate(ranked)})
    found = [
        replace(
            chunk,
            fused_score=(1 - recency.weight) * relevance[n]
            + recency.weight * freshness(times.get(chunk.place.doc_id), recency, now),
        )
        for n, chunk in enumerate(ranked)
    ]
    return sorted(found, key=lambda chunk: (-chunk.fused_score, chunk.place))


def freshness(time: datetime | None, recency: Recency, now: datetime) -> float:
    """Return 1 for what is new or in the future, 0.5 at one half-life, 0 for unknown times."""
    if time is None:
        return 0.0
    age_days = max(0.0, (now - time).total_seconds() / _DAY_S)
    return float(0.5 ** min(age_days / recency.half_life_days, 1_000.0))
