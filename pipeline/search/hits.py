"""The hits in full: read once the order is known, for these alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.answer import Hit
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.hit_details import add_context, add_highlights, add_other_documents
from livedex.pipeline.search.ranking import RankedChunk, RetrieverResults
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.search.vector_retriever import VectorQuery, displayed_score, similarities
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.documents.document_fields import section_id
from livedex.pipeline.store.postgres.statements import sql


async def read_hits(
    connection: Connection,
    tenant_id: TenantId,
    ranked: Sequence[RankedChunk],
    request: SearchRequest,
    selection: DocumentFilter,
    results: RetrieverResults,
    space: VectorQuery | None,
    config: str,
) -> list[Hit]:
    """Read the chunks of an answer, in its order.

    A chunk of a cursor that has changed since, or may not be read any more, is left out.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: the tenant.
        ranked: the chunks, best first.
        request: the search.
        selection: the documents that the search may use.
        results: of the retrievers.
        space: where scores are compared; None: hits have none.
        config: PostgreSQL's text search configuration.
    """
    if not ranked:
        return []
    places = [r.place for r in ranked]
    include: set[str] = set(request.include)
    rows = await connection.fetch(
        sql("read_hits"),
        tenant_id,
        [p.doc_id for p in places],
        [p.position for p in places],
        bool(include & {"content", "highlights"}),
        "metadata" in include,
        selection.principals,
    )
    known = {} if results.used_feedback else dict(results.vectors or {})
    vectors: Mapping[int, list[float]] = {}
    passages = {row["passage_id"] for row in rows}
    if space is not None and ("embedding" in include or passages - known.keys()):
        wanted = passages if "embedding" in include else passages - known.keys()
        more, vectors = await similarities(
            connection, tenant_id, space, sorted(wanted), vectors="embedding" in include
        )
        known |= {
            passage_id: score for passage_id, score in more.items() if passage_id not in known
        }
    hits, shown, contents = [], [], []
    for row in rows:
        one = ranked[row["place"] - 1]
        if row["passage_id"] != one.passage_id:
            continue
        hit = _hit(one, row, known.get(row["passage_id"]), include)
        if "embedding" in include and row["passage_id"] in vectors:
            hit["embedding"] = vectors[row["passage_id"]]
        if "explain" in include:
            hit["explain"] = _explanation(
                one, row["passage_id"], row["heading"], hit["score"], request, results
            )
        hits.append(hit)
        shown.append(one)
        contents.append(row["content"])
    if "highlights" in include and hits:
        words = results.keyword.words if results.keyword is not None else results.query_words
        await add_highlights(connection, config, hits, contents, request.words, words)
    if request.collapse:
        await add_other_documents(connection, tenant_id, selection, hits, shown)
    if request.context:
        hits = await add_context(connection, tenant_id, selection, hits, request.context)
    return hits


def _hit(one: RankedChunk, row: Mapping[str, Any], found: float | None, include: set[str]) -> Hit:
    hit: Hit = {
        "document_id": row["document_id"],
        "chunk_index": row["chunk_index"],
        "score": None if found is None else displayed_score(found),
        "fused_score": one.fused_score,
        "vector_rank": one.vector_rank,
        "keyword_rank": one.keyword_rank,
        "heading": row["heading"],
        "start": row["start"],
        "end": row["end"],
        "title": row["title"],
        "uri": row["uri"],
        "collection": row["collection"],
        "version": row["version"],
        "synced_at": row["synced_at"],
    }
    if "content" in include:
        hit["content"] = row["content"]
    if "metadata" in include:
        hit["metadata"] = row["metadata"]
    return hit


def _explanation(
    one: RankedChunk,
    passage_id: int,
    heading: Sequence[str],
    similarity: float | None,
    request: SearchRequest,
    results: RetrieverResults,
) -> dict[str, Any]:
    """Explain the rank of a hit: the scores of the retrievers, and how they were fused."""
    keyword = results.keyword
    return {
        "similarity": similarity if one.vector_rank else None,
        "bm25": keyword.text_scores.get(passage_id)
        if keyword is not None and one.keyword_rank
        else None,
        "fields": keyword.fields.at(one.place.doc_id, section_id(heading))
        if keyword is not None and one.keyword_rank
        else None,
        "words": list(keyword.words) if keyword is not None else [],
        "lookup": keyword is not None and keyword.is_exact_lookup,
        "feedback": results.used_feedback,
        "expansion": sorted(keyword.expansion, key=keyword.expansion.__getitem__, reverse=True)
        if keyword is not None
        else [],
        "fusion": {"kind": "rrf", "k": request.rank_constant}
        if request.fusion_method == "rrf"
        else {"kind": request.fusion_method, "alpha": request.vector_weight},
    }
