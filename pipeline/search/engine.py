"""Answer a search: both retrievers in one snapshot, fused into one ranking, and only the hits read
in full.

The query is embedded before the transaction begins: nothing waits for an embedder while a
connection is held.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.model import GenerationId, Reader, TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.answer import Hit, SearchResult
from livedex.pipeline.search.complete_generations import GenerationCompleteness
from livedex.pipeline.search.document_filter import DocumentFilter, document_filter
from livedex.pipeline.search.hits import read_hits
from livedex.pipeline.search.keyword_retriever import (
    KeywordResult,
    KeywordRetriever,
    query_weights,
)
from livedex.pipeline.search.passage_condition import PassageCondition, read_condition
from livedex.pipeline.search.query_expansion import (
    expand_query,
    feedback_passages,
    move_vector,
)
from livedex.pipeline.search.ranking import RetrieverResults, chunk_positions, rank
from livedex.pipeline.search.recall_monitor import learned_ef_search
from livedex.pipeline.search.request import MAX_QUERY_CHARACTERS, SearchRequest
from livedex.pipeline.search.selection import HitSelector, Page
from livedex.pipeline.search.spelling_suggestion import MAX_TYPED_WORDS, SpellingSuggester
from livedex.pipeline.search.vector_retriever import (
    MAX_EXACT_SCAN_PASSAGES,
    VectorQuery,
    displayed_score,
    retrieve_nearest,
    similarities,
    unit_vector,
)
from livedex.pipeline.search.word_statistics import WordStatistics, read_word_statistics
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.documents.vector_index import index_name
from livedex.pipeline.store.keyword_analyzer import KeywordQuery, analyze_query

__all__ = ["SearchEngine", "SearchResult"]


class QueryEmbedder(Protocol):
    """Turns a query into a vector."""

    async def embed_query(
        self, text: str, *, tenant_id: TenantId | None = None
    ) -> NDArray[np.float32]:
        """The vector of a query, of length 1, charged to a tenant; raises RetryableError or
        OutageError while the model does not answer.
        """
        ...


class Generation(Protocol):
    """The active vector space, None while nobody knows it."""

    generation_id: GenerationId | None
    dimensions: int | None

    async def load(self) -> None:
        """Look whether another process knows it by now; raises OutageError while the database is
        away.
        """
        ...


class SearchEngine:
    """Answers searches.

    Args:
        database: as the application's role.
        embeddings: of the active generation's model.
        generation: the active generation.
        text_search_config: PostgreSQL's name of the language of the keyword index.
        exact_passages: how large a tenant may be whose vectors are scanned without the index.
    """

    def __init__(
        self,
        database: Database,
        embeddings: QueryEmbedder,
        generation: Generation,
        *,
        text_search_config: str = "english",
        metrics: Metrics | None = None,
        exact_passages: int = MAX_EXACT_SCAN_PASSAGES,
    ) -> None:
        self._database = database
        self._embeddings = embeddings
        self._generation = generation
        self._config = text_search_config
        self._metrics = metrics
        self._exact_passages = exact_passages
        self._complete = GenerationCompleteness()

    async def search(self, reader: Reader, request: SearchRequest) -> SearchResult:
        """Answer a request; `after` is left to the caller.

        Args:
            reader: who may be shown only hits in documents that it may read.
            request: what to find.

        Raises:
            RejectedError: the query's vector has other dimensions than the active generation, or
            the model refuses the query. OutageError, RetryableError: the database is away; in mode
            `vector` also the embedder.
        """
        found = await self._search(reader, request)
        if found.hits or not found.did_you_mean or len(found.did_you_mean) > MAX_QUERY_CHARACTERS:
            return found
        corrected = request.model_copy(update={"query": found.did_you_mean})
        again = await self._search(reader, corrected)
        took_ms = round(found.took_ms + again.took_ms, 3)
        return replace(again, did_you_mean=found.did_you_mean, took_ms=took_ms)

    async def _search(self, reader: Reader, request: SearchRequest) -> SearchResult:
        begin = time.perf_counter()
        vector, degraded = await self._query_vector(request, reader.tenant_id)
        selection = document_filter(request, reader)
        async with self._database.read_transaction(reader, "search", snapshot=True) as connection:
            search = _Search(connection, reader.tenant_id, request, selection)
            generation_id = self._generation.generation_id
            hits, page = await search.run(vector, generation_id, self._config, self._exact_passages)
            suggested = await search.suggest(self._config, finds_nothing=not hits)
            known = None if vector is None or request.mode == "keyword" else generation_id
            if known is not None and not await self._complete.check(
                connection, reader.tenant_id, known
            ):
                degraded = ["vector"]
        took_s = time.perf_counter() - begin
        if self._metrics is not None:
            self._metrics.search_seconds.labels(request.mode).observe(took_s)
        return SearchResult(
            hits,
            degraded,
            round(took_s * 1000, 3),
            page.facets,
            page.next_cursor,
            is_paged=request.cursor is not None,
            did_you_mean=suggested,
        )

    async def _query_vector(
        self, request: SearchRequest, tenant_id: TenantId
    ) -> tuple[HalfVector | None, list[str]]:
        """Return the vector of the query; without one, which requested retriever cannot run.

        Raises:
            OutageError: the model never answered, or answers with other dimensions.
            RejectedError: the vector has other dimensions than the index, or the model refuses
                the query.
            RetryableError: the model does not answer in time.
        """
        if self._generation.generation_id is None:
            await self._generation.load()
        dimensions = self._generation.dimensions
        given = request.query_vector
        if given is None and not request.words:
            return None, []  # only exclusions
        if given is not None and dimensions is not None and len(given) != dimensions:
            raise RejectedError(
                f"`query_vector` has {len(given)} dimensions, the index has {dimensions}",
                reason="query_vector",
            )
        try:
            if self._generation.generation_id is None:
                raise OutageError(
                    "embedder",
                    "the embedding model never answered yet, so the index has no vectors",
                )
            return unit_vector(
                given if given is not None else await self._embedded(request.words, tenant_id)
            ), []
        except (RetryableError, RejectedError):
            if request.mode == "vector" or request.query is None:
                raise
            return None, ["vector"] if request.mode == "hybrid" else []

    async def _embedded(self, query: str, tenant_id: TenantId) -> NDArray[np.float32]:
        found = await self._embeddings.embed_query(query, tenant_id=tenant_id)
        if self._generation.dimensions is not None and len(found) != self._generation.dimensions:
            raise OutageError(
                "embedder",
                f"the model answers with {len(found)} dimensions, the index has "
                f"{self._generation.dimensions}",
            )
        return found


class _Search:
    """One search in one transaction."""

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
        self._selection = selection
        self._wanted = max(request.candidates, request.limit)
        self._counts: WordStatistics | None = None

    async def suggest(self, config: str, *, finds_nothing: bool) -> str | None:
        """Return the query with other words for those that no readable document holds; to be called
        after `run`.

        Args:
            finds_nothing: whether the query has no hits.
        """
        request = self._request
        if self._counts is None or request.query is None or request.mode == "vector":
            return None
        if request.cursor or request.query_vector is not None:
            return None
        if not finds_nothing and len(request.query.split()) > MAX_TYPED_WORDS:
            return None
        suggester = SpellingSuggester(
            self._connection, config, is_restricted=self._selection.principals is not None
        )
        return await suggester.suggest(self._tenant_id, request.query, self._counts)

    async def run(
        self,
        vector: HalfVector | None,
        generation_id: GenerationId | None,
        config: str,
        exact_passages: int,
    ) -> tuple[list[Hit], Page]:
        request = self._request
        query = analyze_query(request.words, config)
        counts, indexed = await read_word_statistics(
            self._connection, self._tenant_id, config, query, index_name(generation_id)
        )
        self._counts = counts
        space = None
        if vector is not None and generation_id is not None:
            enough = indexed and counts.passages > exact_passages
            ef_search = request.ef_search
            if enough and ef_search is None:
                ef_search = await learned_ef_search(
                    self._connection, self._tenant_id, generation_id
                )
            space = VectorQuery(generation_id, vector, counts.passages if enough else 0, ef_search)
        selector = HitSelector(self._connection, self._tenant_id, request, self._selection)
        if request.cursor:
            results = RetrieverResults(None, None, query_words=counts.words)
            page = selector.next_page(request.cursor)
        else:
            results = replace(
                await self._retrieve(query, counts, space, config), query_words=counts.words
            )
            places = await chunk_positions(
                self._connection, self._tenant_id, results, self._selection, self._wanted
            )
            page = await selector.first_page(rank(results, places, request, self._wanted), space)
        hits = await read_hits(
            self._connection,
            self._tenant_id,
            page.chunks,
            request,
            self._selection,
            results,
            space,
            config,
        )
        return hits, page

    async def _retrieve(
        self,
        query: KeywordQuery,
        counts: WordStatistics,
        space: VectorQuery | None,
        config: str,
    ) -> RetrieverResults:
        request = self._request
        keyword = condition = None
        if request.web_query is not None:
            condition = await read_condition(
                self._connection, self._tenant_id, request.web_query, config
            )
        retriever = KeywordRetriever(
            self._connection,
            self._tenant_id,
            self._selection,
            self._wanted,
            config=config,
            condition=condition,
        )
        chosen = condition is not None and bool(condition.required)
        if (request.mode != "vector" or chosen) and request.query is not None:
            keyword = await retriever.run(query, counts)
        if request.mode == "keyword" or space is None:
            return RetrieverResults(None, None if request.mode == "vector" else keyword)
        vectors = await self._vectors(space, keyword, condition)
        moved = False
        if request.mode == "vector":
            keyword = None
        if keyword is not None and not chosen and self._may_expand(keyword):
            keyword, vectors, moved = await self._expanded(
                retriever, query_weights(query, counts), counts, keyword, vectors, space
            )
        if request.min_score is not None:
            vectors = await self._near_enough(vectors, space, request.min_score, is_moved=moved)
        return RetrieverResults(vectors, keyword, used_feedback=moved)

    def _may_expand(self, keyword: KeywordResult) -> bool:
        request = self._request
        return (
            request.expand
            and bool(keyword.scores)
            and not keyword.is_exact_lookup
            and request.query_vector is None
        )

    async def _expanded(
        self,
        retriever: KeywordRetriever,
        weights: Mapping[str, float],
        counts: WordStatistics,
        keyword: KeywordResult,
        vectors: dict[int, float],
        space: VectorQuery,
    ) -> tuple[KeywordResult, dict[int, float], bool]:
        """Rank again with the words and vectors of the best passages, see `query_expansion`."""
        feedback = feedback_passages(
            vectors, keyword.scores, self._request.vector_weight, counts.passages
        )
        if not feedback:
            return keyword, vectors, False
        weights, counts = await expand_query(
            self._connection, self._tenant_id, weights, counts, feedback
        )
        keyword = await retriever.run_expanded(weights, counts, keyword)
        target = await move_vector(self._connection, self._tenant_id, space, list(feedback))
        if target is space:
            return keyword, vectors, False
        nearest = list({**vectors, **keyword.scores})
        found, _ = await similarities(self._connection, self._tenant_id, target, nearest)
        best = sorted(found.items(), key=lambda item: -item[1])[: len(vectors)]
        return keyword, dict(best), True

    async def _vectors(
        self,
        space: VectorQuery,
        keyword: KeywordResult | None,
        condition: PassageCondition | None,
    ) -> dict[int, float]:
        chosen = condition is not None and bool(condition.required)
        if keyword is not None and (keyword.is_exact_lookup or chosen):
            return (
                await similarities(self._connection, self._tenant_id, space, list(keyword.scores))
            )[0]
        wanted = self._wanted
        while True:
            found = await retrieve_nearest(
                self._connection, self._tenant_id, space, self._selection, wanted
            )
            if condition is None:
                return found
            kept = await condition.best(found, self._wanted)
            most = max(self._wanted, condition.examined)
            if len(kept) >= self._wanted or len(found) < wanted or wanted >= most:
                return kept
            wanted = min(4 * wanted, most)

    async def _near_enough(
        self, vectors: dict[int, float], space: VectorQuery, bound: float, *, is_moved: bool
    ) -> dict[int, float]:
        """Those whose similarity to the query itself is not below a bound."""
        found = vectors
        if is_moved:
            found, _ = await similarities(self._connection, self._tenant_id, space, list(vectors))
        return {
            passage_id: value
            for passage_id, value in vectors.items()
            if displayed_score(found[passage_id]) >= bound
        }
