"""From passages with scores to chunks with ranks.

The legs score passages; a passage that stands in several places is a hit in each. Within a leg equal scores are ordered by document and
position, so that the same query has the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.document_filter import Selection
from livedex.pipeline.search.fusion import Place, reciprocal_ranks, weighted_scores
from livedex.pipeline.search.keyword_retriever import Keyword
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.search.vector_retriever import score
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.postgres.statements import sql

Places = Mapping[int, list[Place]]  # of each passage


@dataclass(frozen=True, slots=True)
class Legs:
    """What the legs found; None where one did not run.

    Attributes:
        vectors: cosine similarity by passage, to where the leg looked.
        keyword: BM25 by passage.
        is_moved: whether the vector leg looked elsewhere than where the query is, see `livedex.pipeline.search.relevance_feedback`.
    """

    vectors: Mapping[int, float] | None
    keyword: Keyword | None
    is_moved: bool = False


@dataclass(frozen=True, slots=True)
class Ranked:
    """A place in the order of the answer; ranks count from 1 and are None where the leg did not find it."""

    place: Place
    fused_score: float
    vector_rank: int | None
    keyword_rank: int | None


async def places_of(connection: Connection, tenant_id: TenantId, legs: Legs, selection: Selection, most: int) -> Places:
    """Where the passages of the legs stand, of each at most `most` places."""
    passages = list(dict.fromkeys([*(legs.vectors or ()), *(legs.keyword.scores if legs.keyword else ())]))
    if not passages:
        return {}
    rows = await connection.fetch(sql("chunks_of_passages"), tenant_id, passages, most, *selection.arguments)
    found: dict[int, list[Place]] = {}
    for row in rows:
        found.setdefault(row["passage_id"], []).append(Place(row["document_id"], row["position"], row["doc_id"]))
    return found


def rank(legs: Legs, places: Places, request: SearchRequest, most: int) -> list[Ranked]:
    """Join the legs by the fusion that the request asks for.

    Args:
        most: places taken from each leg.
    """
    vectors = _ordered(legs.vectors or {}, places, most)
    keywords = _ordered(legs.keyword.scores if legs.keyword else {}, places, most)
    if request.fusion == "rrf":
        fused = reciprocal_ranks([list(vectors), list(keywords)], k=request.rrf_k)
    else:
        both = legs.vectors is not None and legs.keyword is not None
        best = max(keywords.values(), default=1.0) or 1.0
        shares = {place: score / best for place, score in keywords.items()}
        similarities = {place: score(found) for place, found in vectors.items()}
        fused = weighted_scores([(similarities, request.alpha if both else 1.0), (shares, 1.0 - request.alpha if both else 1.0)])
    vector_ranks = {place: n for n, place in enumerate(vectors, 1)}
    keyword_ranks = {place: n for n, place in enumerate(keywords, 1)}
    return [Ranked(place, score, vector_ranks.get(place), keyword_ranks.get(place)) for place, score in fused]


def _ordered(scores: Mapping[int, float], places: Places, most: int) -> dict[Place, float]:
    found = [(-value, place) for passage_id, value in scores.items() for place in places.get(passage_id, ())]
    return {place: -negative for negative, place in sorted(found)[:most]}
