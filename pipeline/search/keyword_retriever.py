"""The keyword retriever: BM25 over the words of a query.

Candidates are the passages that hold words which are rare enough together
(`livedex.pipeline.search.candidate_query`), and BM25 over all words orders them. A common word
therefore costs nothing. If fewer candidates are visible than are wanted, the retriever takes more,
in the end every passage of the requested documents.

A word counts as often as the query repeats it. A query of identifiers alone (`ERR_CONN_RESET`) is a
lookup: it finds the passages that hold one of them exactly, and after these the ones that hold
another spelling (`livedex.pipeline.search.exact_spelling`), if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Any
from uuid import UUID

import numpy as np

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.bm25 import bm25_scores, inverse_document_frequencies, term_frequencies
from livedex.pipeline.search.candidate_query import any_word_query, build_candidate_query
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.exact_spelling import (
    MAX_COMPARED_PASSAGES,
    MAX_TYPED_WORDS,
    exact_spelling_factors,
    holds_other_spelling,
    spelling_phrases,
)
from livedex.pipeline.search.field_retriever import FieldPlace, FieldRetriever, FieldScores
from livedex.pipeline.search.passage_condition import PassageCondition
from livedex.pipeline.search.word_statistics import (
    WordStatistics,
    heaviest_words,
    tsquery_literal,
)
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.keyword_analyzer import EXACT_PREFIX, KeywordQuery
from livedex.pipeline.store.postgres.statements import sql

MAX_WORDS = 64  # of a query that count: the heaviest
IDENTIFIER_WEIGHT = 1.5  # of an identifier, beside the words in it
COMPOUND_WEIGHT = 0.02  # of words with hyphens between; their joined spelling says the same
SPELLING_WEIGHT = 0.5  # of another spelling of a word


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """How many candidates the retriever considers.

    Attributes:
        expected: passages that are expected to match what candidates must hold.
        most: candidates at most.
    """

    expected: int = 300
    most: int = 1_000


_DEFAULT_BREADTH = CandidateLimits()


@dataclass(frozen=True, slots=True)
class KeywordResult:
    """What the keyword retriever found.

    Attributes:
        scores: BM25 by passage, of visible passages that match the request's filters: of the text,
            and of the fields of the best place where it stands.
        is_exact_lookup: whether these hold an identifier that was looked up.
        exact: those that hold one exactly, where others hold another spelling.
        words: the words of the query.
        expansion: words that query expansion added, with their weights.
        text_scores: BM25 of the text alone, by passage.
        fields: scores of the documents' fields.
    """

    scores: Mapping[int, float]
    is_exact_lookup: bool = False
    exact: frozenset[int] = frozenset()
    words: Sequence[str] = ()
    expansion: Mapping[str, float] = field(default_factory=dict)
    text_scores: Mapping[int, float] = field(default_factory=dict)
    fields: FieldScores = field(default_factory=FieldScores)

    def score_at(self, passage_id: int, doc_id: int, section: UUID) -> float:
        """Return the score of a passage in one of the places where it stands."""
        return self.text_scores.get(passage_id, 0.0) + self.fields.at(doc_id, section)


class KeywordRetriever:
    """The keyword retriever of one search.

    Args:
        connection: in a transaction of the tenant.
        wanted: passages at least, where so many match.
        config: PostgreSQL's text search configuration.
        condition: what passages must meet beside the query.
    """

    def __init__(
        self,
        connection: Connection,
        tenant_id: TenantId,
        selection: DocumentFilter,
        wanted: int,
        breadth: CandidateLimits = _DEFAULT_BREADTH,
        *,
        config: str = "english",
        condition: PassageCondition | None = None,
    ) -> None:
        self._condition = condition
        self._config = config
        self._typed: Sequence[str] = ()
        self._connection = connection
        self._tenant_id = tenant_id
        self._selection = selection
        self._wanted = wanted
        self._expected = max(breadth.expected, 3 * wanted)
        self._most = max(breadth.most, 2 * wanted)
        self._kept = 2 * wanted  # by their text: fields change the order
        self._fields = FieldRetriever(connection, tenant_id, selection)

    async def run(self, query: KeywordQuery, counts: WordStatistics) -> KeywordResult:
        """Find the best passages for the words of a query."""
        self._typed = query.typed
        weights = query_weights(query, counts)
        if not weights and self._condition is not None and self._condition.required:
            weights = {EXACT_PREFIX: 1.0}  # a lexeme that no passage has: the condition chooses
        if not weights:
            return KeywordResult({})
        scale = _Scale(heaviest_words(weights, counts, MAX_WORDS), counts)
        if query.only_identifiers:
            result = await self._look_up(query, scale, counts, weights)
            if result.scores:
                return result
        fields = await self._fields.run(weights, counts)
        return await self._with_fields(await self._best(scale, counts), scale, fields)

    async def _look_up(
        self,
        query: KeywordQuery,
        scale: _Scale,
        counts: WordStatistics,
        weights: Mapping[str, float],
    ) -> KeywordResult:
        """Find the passages that hold an identifier exactly, and those that hold another spelling
        of it.
        """
        exact = await self._found(any_word_query(query.identifiers), scale)
        others: dict[int, float] = {}
        if len(exact) < self._wanted:
            others = await self._other_spellings(query, scale, exact)
        above = max(others.values(), default=0.0)
        found = {passage_id: above + score for passage_id, score in exact.items()} | others
        fields = await self._fields.run({w: weights[w] for w in query.identifiers}, counts)
        result = await self._with_fields(found, scale, fields)
        first = frozenset(result.scores.keys() - others.keys() if others else ())
        return replace(result, is_exact_lookup=True, exact=first)

    async def _other_spellings(
        self, query: KeywordQuery, scale: _Scale, exact: Mapping[int, float]
    ) -> dict[int, float]:
        phrases = spelling_phrases(query.typed)
        matching = phrases and await self._connection.fetchval(
            sql("any_phrase"), self._config, phrases
        )
        if not matching:
            return {}
        found = await self._found(matching, scale)
        contents = await self._contents([each for each in found if each not in exact])
        return {
            passage_id: found[passage_id]
            for passage_id, content in contents.items()
            if holds_other_spelling(query.typed, content)
        }

    async def run_expanded(
        self, weights: Mapping[str, float], counts: WordStatistics, first: KeywordResult
    ) -> KeywordResult:
        """Find the best passages for an expanded query.

        Args:
            weights: of the query's words and of those that were added, > 0.
            counts: with the frequencies of all these words.
            first: what the query itself found.
        """
        scale = _Scale(heaviest_words(weights, counts, MAX_WORDS), counts)
        added = {word: weight for word, weight in weights.items() if word not in first.words}
        result = await self._with_fields(await self._best(scale, counts), scale, first.fields)
        return replace(result, words=first.words, expansion=added)

    async def _with_fields(
        self, found: Mapping[int, float], scale: _Scale, fields: FieldScores
    ) -> KeywordResult:
        """Add the scores of fields to those of the text, and keep the wanted passages.

        Args:
            found: BM25 of the text, by passage.
            scale: weights of the words.
            fields: of the words that were asked for, without those of an expansion: a heading of a
                single common word would outweigh the title that was asked for.
        """
        text, best = dict(found), dict(found)
        if fields.by_section:
            places = await self._fields.places(fields, found, scale.words)
            text |= scale.scores_of_places(places)
            for place in places:
                value = text[place.passage_id] + fields.at(place.doc_id, place.section)
                best[place.passage_id] = max(value, best.get(place.passage_id, 0.0))
        if self._condition is not None and (added := best.keys() - found.keys()):
            kept = await self._condition.meeting(added)
            best = {each: score for each, score in best.items() if each in found or each in kept}
        best = _best(best, self._wanted)
        return KeywordResult(
            best,
            words=scale.words,
            text_scores={passage_id: text[passage_id] for passage_id in best},
            fields=fields,
        )

    async def _best(self, scale: _Scale, counts: WordStatistics) -> dict[int, float]:
        if self._condition is not None and self._condition.required:
            return await self._found("", scale)
        for expected in (self._expected, 10 * self._expected):
            narrow = build_candidate_query(scale.words, counts, expected, scale.weights)
            found = await self._found(narrow.tsquery, scale)
            if len(found) >= self._wanted or narrow.matches_any_word:
                return found
        return await self._found(any_word_query(scale.words), scale)

    async def _found(self, matching: str, scale: _Scale) -> dict[int, float]:
        """Return the BM25 of the best passages that match and are visible: twice the wanted, and
        those as good as the last of them.
        """
        if self._condition is not None:
            matching = self._condition.narrow(matching)
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
        if self._condition is not None:
            found = await self._condition.best(found, self._kept)
        return await self._prefer_exact_spelling(_best(found, self._kept))

    async def _prefer_exact_spelling(self, scores: dict[int, float]) -> dict[int, float]:
        if len(scores) < 2 or not 1 <= len(self._typed) <= MAX_TYPED_WORDS:
            return scores
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:MAX_COMPARED_PASSAGES]
        factors = exact_spelling_factors(self._typed, await self._contents(best))
        return {
            passage_id: score * factors.get(passage_id, 1.0) for passage_id, score in scores.items()
        }

    async def _contents(self, passages: Sequence[int]) -> dict[int, str]:
        rows = await self._connection.fetch(
            sql("contents_of"), self._tenant_id, passages[: self._kept]
        )
        return {row["passage_id"]: row["content"] for row in rows}

    async def _visible(self, scores: Mapping[int, float]) -> dict[int, float]:
        """The visible ones; not all of them where the best are enough."""
        parts = [scores]
        if self._selection.has_no_request_filter:  # hardly any is not
            parts.insert(0, _best(scores, self._kept + self._wanted // 4 + 20))
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
    """The weights of words in BM25.

    Attributes:
        words: the rarest first.
        weights: of each word, beside its idf.
        idf: of each word, multiplied by its weight.
        is_one_of_many: whether the tsquery names the tenant; for speed alone, since the statements
            select the tenant's rows in any case.
    """

    def __init__(self, weights: Mapping[str, float], counts: WordStatistics) -> None:
        self.words = sorted(weights, key=lambda word: counts.frequencies.get(word, 0))
        self.weights = weights
        self.mean_terms = counts.mean_terms
        self.is_one_of_many = counts.is_one_of_many
        self._passages = counts.passages
        self._known = np.array([counts.frequencies.get(word, 1) for word in self.words])
        self._weights = np.array([weights[word] for word in self.words])
        self.idf = self._weights * inverse_document_frequencies(self._known, self._passages)

    def scores_of_places(self, places: Sequence[FieldPlace]) -> dict[int, float]:
        """Return the BM25 of the text of passages that fields brought, by passage."""
        added = {p.passage_id: p for p in places if p.terms is not None and p.ranks is not None}
        if not added:
            return {}
        often = term_frequencies([p.ranks or () for p in added.values()])
        terms = [p.terms or 0 for p in added.values()]
        values = bm25_scores(often, terms, self.idf, self.mean_terms)
        return dict(zip(added, values.tolist(), strict=True))

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


def query_weights(query: KeywordQuery, counts: WordStatistics) -> dict[str, float]:
    """Return how much each word of a query counts beside its idf, > 0."""
    exact = dict.fromkeys(query.exact, COMPOUND_WEIGHT)
    exact |= dict.fromkeys(query.identifiers, IDENTIFIER_WEIGHT)
    exact |= dict.fromkeys(counts.spellings, SPELLING_WEIGHT)
    return {word: exact.get(word, 1.0) * counts.repeats.get(word, 1) for word in counts.words}


def _best(scores: Mapping[int, float], wanted: int) -> dict[int, float]:
    """The best, and those as good as the last of them."""
    if len(scores) <= wanted:
        return dict(scores)
    last = sorted(scores.values(), reverse=True)[wanted - 1]
    return {passage_id: score for passage_id, score in scores.items() if score >= last}


def _tenant_lexeme(tenant_id: str) -> str:
    return "@" + md5(tenant_id.encode(), usedforsecurity=False).hexdigest()[:12]
