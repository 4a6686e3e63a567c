"""From the ranking to the hits: age, duplicates, documents, diversity, and pages.

The steps run in this order, each only where the request asks for it: recency, collapse, limits per
document, MMR, top-p. What is left is the frozen list that pages are cut from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import TenantId
from livedex.pipeline.search.diversity import maximal_marginal_relevance, nucleus_size
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.facets import count_facets
from livedex.pipeline.search.fusion import scaled
from livedex.pipeline.search.grouping import (
    collapse_passages,
    group_by_document,
    limit_per_document,
)
from livedex.pipeline.search.paging import read_cursor, write_cursor
from livedex.pipeline.search.ranking import RankedChunk
from livedex.pipeline.search.recency import rank_by_recency
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.search.vector_retriever import VectorQuery, similarities
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.postgres.statements import sql

MAX_DIVERSE_CHUNKS = 400


class Page(NamedTuple):
    """The chunks of one page, the cursor of the next one, and facets."""

    chunks: list[RankedChunk]
    next_cursor: str | None
    facets: dict[str, dict[str, int]] | None


class HitSelector:
    """Chooses the hits of one search.

    Args:
        connection: in the transaction of the search.
    """

    def __init__(
        self,
        connection: Connection,
        tenant_id: TenantId,
        request: SearchRequest,
        selection: DocumentFilter,
    ) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._request = request
        self._principals = selection.principals

    async def first_page(self, ranked: Sequence[RankedChunk], space: VectorQuery | None) -> Page:
        """Choose the hits of a ranking.

        Args:
            ranked: best first.
            space: where vectors are compared; None: MMR keeps the order.
        """
        request, chunks = self._request, list(ranked)
        documents: Mapping[int, Mapping[str, Any]] = {}
        if request.recency is not None or request.facets:
            documents = await self._documents({chunk.place.doc_id for chunk in chunks})
        if request.recency is not None:
            field = request.recency.field
            times = {doc_id: row[field] for doc_id, row in documents.items()}
            chunks = rank_by_recency(chunks, times, request.recency, datetime.now(UTC))
        if request.collapse:
            chunks = collapse_passages(chunks)
        if request.group_by is None and request.max_per_document is not None:
            chunks = limit_per_document(chunks, request.max_per_document)
        if request.mmr:
            chunks = await self._diverse(chunks, space)
        if request.top_p is not None:
            chunks = chunks[: nucleus_size([c.fused_score for c in chunks], request.top_p)]
        facets = count_facets(request.facets, documents.values()) if request.facets else None
        return self._page(chunks, facets)

    def next_page(self, cursor: str) -> Page:
        """Read the next page from a cursor.

        Raises:
            RejectedError: it is no cursor of this search.
        """
        try:
            return self._page(read_cursor(self._request, cursor), None)
        except ValueError as exc:
            raise RejectedError(f"`cursor`: {exc}", reason="cursor") from exc

    def _page(self, chunks: list[RankedChunk], facets: dict[str, dict[str, int]] | None) -> Page:
        request = self._request
        if request.group_by is None:
            page, rest = chunks[: request.limit], chunks[request.limit :]
        else:
            groups = group_by_document(chunks, request.max_per_document or 1)
            page = list(chain.from_iterable(groups[: request.limit]))
            rest = list(chain.from_iterable(groups[request.limit :]))
        cursor = write_cursor(request, rest) if request.cursor is not None else None
        return Page(page, cursor, facets)

    async def _documents(self, numbers: set[int]) -> dict[int, Mapping[str, Any]]:
        rows = await self._connection.fetch(
            sql("found_documents"), self._tenant_id, sorted(numbers), self._principals
        )
        return {row["doc_id"]: row for row in rows}

    async def _diverse(
        self, ranked: list[RankedChunk], space: VectorQuery | None
    ) -> list[RankedChunk]:
        """Order the best chunks by MMR; its time grows with the square of their number."""
        if space is None or not ranked:
            return ranked
        chunks, rest = ranked[:MAX_DIVERSE_CHUNKS], ranked[MAX_DIVERSE_CHUNKS:]
        passages = list(dict.fromkeys(chunk.passage_id for chunk in chunks))
        _, vectors = await similarities(
            self._connection, self._tenant_id, space, passages, vectors=True
        )
        matrix = np.zeros((len(chunks), len(space.query.to_list())), dtype=np.float32)
        for n, chunk in enumerate(chunks):
            if chunk.passage_id in vectors:
                vector = np.asarray(vectors[chunk.passage_id], dtype=np.float32)
                matrix[n] = vector / (float(np.linalg.norm(vector)) or 1.0)
        relevance = scaled({n: chunk.fused_score for n, chunk in enumerate(chunks)})
        order = maximal_marginal_relevance(
            list(relevance.values()), matrix, weight=self._request.mmr_lambda, most=len(chunks)
        )
        return [*(chunks[n] for n in order), *rest]
