"""From passages with scores to chunks with ranks.

The retrievers score passages; a passage that stands in several places is a hit in each. Within a
retriever equal scores are ordered by document and position, so that the same query has the same
order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.fusion import (
    ChunkPosition,
    min_max_fusion,
    reciprocal_rank_fusion,
    weighted_score_fusion,
)
from livedex.pipeline.search.keyword_retriever import KeywordResult
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.search.vector_retriever import displayed_score
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.postgres.statements import sql


class PassagePositions(NamedTuple):
    """Where passages stand.

    Attributes:
        chunks: of each passage.
        sections: of each chunk, see `livedex.pipeline.store.documents.document_fields`.
    """

    chunks: Mapping[int, list[ChunkPosition]]
    sections: Mapping[ChunkPosition, UUID]


@dataclass(frozen=True, slots=True)
class RetrieverResults:
    """The results of the retrievers; None where one did not run.

    Attributes:
        vectors: cosine similarity by passage, to where the retriever looked.
        keyword: BM25 by passage.
        used_feedback: whether the vector retriever looked elsewhere than where the query is, see
            `livedex.pipeline.search.query_expansion`.
        query_words: lexemes of the query.
    """

    vectors: Mapping[int, float] | None
    keyword: KeywordResult | None
    used_feedback: bool = False
    query_words: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A place in the order of the answer; ranks count from 1 and are None where the retriever did
    not
    find it.
    """

    place: ChunkPosition
    fused_score: float
    vector_rank: int | None
    keyword_rank: int | None
    passage_id: int = 0
    also_in: tuple[str, ...] = ()


async def chunk_positions(
    connection: Connection,
    tenant_id: TenantId,
    results: RetrieverResults,
    selection: DocumentFilter,
    most: int,
) -> PassagePositions:
    """Where the passages of the retrievers stand, of each at most `most` places."""
    passages = list(
        dict.fromkeys(
            [*(results.vectors or ()), *(results.keyword.scores if results.keyword else ())]
        )
    )
    if not passages:
        return PassagePositions({}, {})
    rows = await connection.fetch(
        sql("chunks_of_passages"), tenant_id, passages, most, *selection.arguments
    )
    found: dict[int, list[ChunkPosition]] = {}
    sections: dict[ChunkPosition, UUID] = {}
    for row in rows:
        chunk = ChunkPosition(row["document_id"], row["position"], row["doc_id"])
        found.setdefault(row["passage_id"], []).append(chunk)
        sections[chunk] = row["section"]
    return PassagePositions(found, sections)


def rank(
    results: RetrieverResults, places: PassagePositions, request: SearchRequest, most: int
) -> list[RankedChunk]:
    """Fuse the results as the request asks.

    Args:
        results: of the retrievers.
        places: where the passages stand.
        request: the search.
        most: places taken from each retriever.
    """
    vectors = _ordered(_vector_scores(results, places), most)
    keywords = _ordered(_keyword_scores(results, places), most)
    both = results.vectors is not None and results.keyword is not None
    if request.fusion_method == "rrf":
        fused = reciprocal_rank_fusion([list(vectors), list(keywords)], k=request.rank_constant)
    elif request.fusion_method == "min_max":
        weight = request.vector_weight
        fused = min_max_fusion(
            [(vectors, weight if both else 1.0), (keywords, 1.0 - weight if both else 1.0)]
        )
    else:
        best = max(keywords.values(), default=1.0) or 1.0
        shares = {place: score / best for place, score in keywords.items()}
        similarities = {place: displayed_score(found) for place, found in vectors.items()}
        fused = weighted_score_fusion(
            [
                (similarities, request.vector_weight if both else 1.0),
                (shares, 1.0 - request.vector_weight if both else 1.0),
            ]
        )
    passages = {place: passage_id for passage_id, found in places.chunks.items() for place in found}
    if results.keyword is not None and results.keyword.exact:
        exact = results.keyword.exact
        fused = sorted(
            ((place, score + (passages[place] in exact)) for place, score in fused),
            key=lambda item: -item[1],
        )
    vector_ranks = {place: n for n, place in enumerate(vectors, 1)}
    keyword_ranks = {place: n for n, place in enumerate(keywords, 1)}
    return [
        RankedChunk(
            place, score, vector_ranks.get(place), keyword_ranks.get(place), passages[place]
        )
        for place, score in fused
    ]


def _vector_scores(
    results: RetrieverResults, places: PassagePositions
) -> dict[ChunkPosition, float]:
    return {
        chunk: value
        for passage_id, value in (results.vectors or {}).items()
        for chunk in places.chunks.get(passage_id, ())
    }


def _keyword_scores(
    results: RetrieverResults, places: PassagePositions
) -> dict[ChunkPosition, float]:
    """Score each chunk by its text and by the fields of its own document and section."""
    if results.keyword is None:
        return {}
    return {
        chunk: results.keyword.score_at(passage_id, chunk.doc_id, places.sections[chunk])
        for passage_id in results.keyword.scores
        for chunk in places.chunks.get(passage_id, ())
    }


def _ordered(scores: Mapping[ChunkPosition, float], most: int) -> dict[ChunkPosition, float]:
    best = sorted((-value, chunk) for chunk, value in scores.items())[:most]
    return {chunk: -negative for negative, chunk in best}
