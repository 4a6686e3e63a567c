"""A search engine whose best hits a reranker may order anew."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from livedex.pipeline.errors import RejectedError, RetryableError
from livedex.pipeline.model import Reader
from livedex.pipeline.rerank.reranker import Reranker
from livedex.pipeline.search.answer import SearchResult
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.search.searcher import Searcher

RERANKED_HITS = 50
log = logging.getLogger(__name__)


class RerankingEngine:
    """Answers searches; where a request asks for it, with the reranker's order.

    Args:
        engine: answers without reranking.
        reranker: None: none is configured, and a request for it is refused.
    """

    def __init__(self, engine: Searcher, reranker: Reranker | None) -> None:
        self._engine = engine
        self._reranker = reranker

    async def search(self, reader: Reader, request: SearchRequest) -> SearchResult:
        """Answer a request.

        Raises:
            RejectedError: reranking is asked for, and there is no reranker, or no query to rank by.
                Others as of `SearchEngine.search`.
        """
        if not request.rerank:
            return await self._engine.search(reader, request)
        if self._reranker is None:
            raise RejectedError(
                "`rerank`: no reranker is configured: set LIVEDEX_RERANKER", reason="rerank"
            )
        if request.query is None:
            raise RejectedError("`rerank` needs `query`: the reranker reads it", reason="rerank")
        begin = time.perf_counter()
        wide = request.model_copy(
            update={
                "rerank": False,
                "limit": max(request.limit, RERANKED_HITS),
                "include": list(dict.fromkeys([*request.include, "content"])),
            }
        )
        found = await self._engine.search(reader, wide)
        degraded = found.degraded
        hits = found.hits
        try:
            query = request.words or request.query
            scores = await self._reranker.score(query, [hit["content"] for hit in hits])
            for hit, score in zip(hits, scores, strict=True):
                hit["rerank_score"] = score
            hits = sorted(hits, key=lambda hit: -hit["rerank_score"])
        except RetryableError as exc:
            log.warning("hits are not reranked: %s", exc)
            degraded = [*degraded, "rerank"]
        hits = hits[: request.limit]
        if "content" not in request.include:
            for hit in hits:
                hit.pop("content", None)
        took_ms = round(1000 * (time.perf_counter() - begin), 3)
        return replace(found, hits=hits, degraded=degraded, took_ms=took_ms)

    async def close(self) -> None:
        """Close the reranker's connections."""
        if self._reranker is not None:
            await self._reranker.close()
