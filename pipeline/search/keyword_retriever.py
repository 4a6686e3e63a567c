"""The keyword leg: any word of the query counts, the rare ones most.

Candidates are the passages that hold words which are rare enough together
(`livedex.pipeline.search.candidate_query`), and BM25 over all words orders them. So a word that
everybody uses costs nothing, and an answer that needs all matches has them: where fewer candidates
are visible or asked for than are wanted, more are taken, in the end every passage of the documents
asked for.

A query of identifiers alone (`ERR_CONN_RESET`) is a look-up: it finds the passages that hold one of
them exactly, where there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any

import numpy as np

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.bm25 import bm25_scores, inverse_document_frequencies, term_frequencies
from livedex.pipeline.search.candidate_query import any_word_query, build_candidate_query
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.word_statistics import WordStatistics, tsquery_literal
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.keyword_analyzer import KeywordQuery
from livedex.pipeline.store.postgres.statements import sql

MAX_WORDS = 64  # that count in a query: the rarest
IDENTIFIER_WEIGHT = 1.5  # of an identifier, beside the words in it
COMPOUND_WEIGHT = 0.25  # of words with hyphens between, which say hardly more than the words


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """How far the leg looks.

    Attributes:
        expected: passages that are expected to match what candidates must hold.
        most: candidates at most.
    """

    expected: int = 300
    most: int = 1_000


_DEFAULT_BREADTH = CandidateLimits()


@dataclass(frozen=True, slots=True)
class KeywordResult:
    """What the keyword leg found.

    Attributes:
        scores: BM25 by passage, of visible passages that are asked for.
        is_exact_lookup: whether these hold an identifier that was looked up.
        words: what was looked for.
        weight: about the score of a passage that holds all the words once, > 0.
    """

    scores: Mapping[int, float]
    is_exact_lookup: bool = False
    words: Sequence[str] = ()
    weight: float = 1.0


class KeywordRetriever:
    """The keyword leg of one search.

    Args:
        connection: in a transaction of the tenant.
        wanted: passages at least, where so many match.
    """

    def __init__(
        self,
        connection: Connection,
        tenant_id: TenantId,
        selection: DocumentFilter,
        wanted: int,
        breadth: CandidateLimits = _DEFAULT_BREADTH,
    ) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._selection = selection
        self._wanted = wanted
        self._expected = max(breadth.expected, 3 * wanted)
        self._most = max(breadth.most, 2 * wanted)

    async def run(self, query: KeywordQuery, counts: WordStatistics) -> KeywordResult:
        """The best passages for the words of a query."""
        words = sorted(counts.words, key=lambda word: counts.frequencies.get(word, 0))[:MAX_WORDS]
        if not words:
            return KeywordResult({})
        scale = _Scale(words, counts, query)
        if query.only_identifiers:
            found = await self._found(any_word_query(query.identifiers), scale)
            if found:
                return KeywordResult(found, True, words, scale.weight)
        for expected in (self._expected, 10 * self._expected):
            narrow = build_candidate_query(words, counts, expected)
            found = await self._found(narrow.tsquery, scale)
            if len(found) >= self._wanted or narrow.matches_any_word:
                return KeywordResult(found, False, words, scale.weight)
        return KeywordResult(
            await self._found(any_word_query(words), scale), False, words, scale.weight
        )

    async def _found(self, matching: str, scale: _Scale) -> dict[int, float]:
        """BM25 of the best that match and are visible: the wanted, and those as good as the last
        of them.
        """
        if scale.is_one_of_many:
            matching = f"({matching}) & {tsquery_literal(_tenant_lexeme(self._tenant_id))}"
        arguments = (
            matching,
            list(map(tsquery_literal, scale.words)),
            list(scale.idf),
            scale.mean_terms,
            self._most,
        )
        rows = await self._connection.fetch(sql("keyword_candidates"), *arguments)
        found = await self._visible(scale.scores(rows))
        if len(rows) == self._most and len(found) < self._wanted:
            rows = await self._connection.fetch(
                sql("keyword_matches"), *arguments, self._tenant_id, *self._selection.arguments
            )
            found = scale.scores(rows)
        return _best(found, self._wanted)

    async def _visible(self, scores: Mapping[int, float]) -> dict[int, float]:
        """The visible ones; not all of them where the best are enough."""
        parts = [scores]
        if self._selection.has_no_request_filter:  # hardly any is not
            parts.insert(0, _best(scores, self._wanted + self._wanted // 4 + 20))
        visible: set[int] = set()
        for part in parts:
            rows = await self._connection.fetch(
                sql("visible_passages"), self._tenant_id, list(part), *self._selection.arguments
            )
            visible = {row["passage_id"] for row in rows}
            if len(visible) >= self._wanted or len(part) == len(scores):
                break
        return {passage_id: score for passage_id, score in scores.items() if passage_id in visible}


class _Scale:
    """What the words of a query weigh.

    Attributes:
        words: of the query.
        idf: of each word, with its weight.
        weight: of all words together.
        is_one_of_many: whether the index is told whose passages are meant; for speed alone, the
            statements see to it that no other's come.
    """

    def __init__(self, words: Sequence[str], counts: WordStatistics, query: KeywordQuery) -> None:
        self.words = words
        self.mean_terms = counts.mean_terms
        self.is_one_of_many = counts.is_one_of_many
        self._passages = counts.passages
        self._known = np.array([counts.frequencies.get(word, 1) for word in words])
        weights = dict.fromkeys(query.exact, COMPOUND_WEIGHT) | dict.fromkeys(
            query.identifiers, IDENTIFIER_WEIGHT
        )
        self._weights = np.array([weights.get(word, 1.0) for word in words])
        self.idf = self._weights * inverse_document_frequencies(self._known, self._passages)
        self.weight = float(self.idf.sum())

    def scores(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, float]:
        """BM25 by passage; a word that more candidates hold than were known to counts as what was
        seen.
        """
        if not rows:
            return {}
        often = term_frequencies([row["ranks"] for row in rows])
        seen = np.count_nonzero(often, axis=0)
        idf = self._weights * inverse_document_frequencies(
            np.maximum(self._known, seen), max(self._passages, len(rows))
        )
        values = bm25_scores(often, [row["terms"] for row in rows], idf, self.mean_terms)
        return {row["passage_id"]: value for row, value in zip(rows, values.tolist(), strict=True)}


def _best(scores: Mapping[int, float], wanted: int) -> dict[int, float]:
    """The best, and those as good as the last of them."""
    if len(scores) <= wanted:
        return dict(scores)
    last = sorted(scores.values(), reverse=True)[wanted - 1]
    return {passage_id: score for passage_id, score in scores.items() if score >= last}


def _tenant_lexeme(tenant_id: str) -> str:
    return "@" + md5(tenant_id.encode(), usedforsecurity=False).hexdigest()[:12]
