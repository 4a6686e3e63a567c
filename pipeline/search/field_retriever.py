"""Score the fields of documents for a keyword query: title, file name and heading paths.

A field holds a word or does not; how often says nothing in a title. Its BM25 is added to that of
the passages below it with a weight below 1. The first chunks of the sections and documents whose
fields match best become candidates even if their text holds no word of the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.bm25 import bm25_contributions, inverse_document_frequencies
from livedex.pipeline.search.candidate_query import build_candidate_query
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.word_statistics import (
    WordStatistics,
    heaviest_words,
    tsquery_literal,
)
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.documents.document_fields import WHOLE_DOCUMENT
from livedex.pipeline.store.postgres.statements import sql

FIELD_WEIGHT = 0.6  # of a field's BM25, beside 1 of the text
MAX_FIELD_WORDS = 24  # of a query that are looked up in fields: the heaviest
_EXPECTED_FIELDS = 100
_MAX_FIELDS = 200
_MAX_SECTIONS = 30  # whose first chunks become candidates
_CHUNKS_OF_SECTION = 3


@dataclass(frozen=True, slots=True)
class FieldScores:
    """Weighted scores of the fields that match a query.

    Attributes:
        by_section: what each word of the query adds, shape (words,), by number of the document and
            section; the title and the file name stand under `WHOLE_DOCUMENT`.
    """

    by_section: Mapping[tuple[int, UUID], NDArray[np.float64]] = field(default_factory=dict)

    def at(self, doc_id: int, section: UUID) -> float:
        """Return the score of a place: a word counts once, in its title or in its heading."""
        title = self.by_section.get((doc_id, WHOLE_DOCUMENT))
        heading = self.by_section.get((doc_id, section))
        if title is not None and heading is not None:
            return float(np.maximum(title, heading).sum())
        found = heading if title is None else title
        return 0.0 if found is None else float(found.sum())

    def best_sections(self, most: int) -> list[tuple[int, UUID]]:
        """Return the sections that match best, best first."""
        ranked = sorted(self.by_section, key=lambda key: (-self.at(*key), key))
        return ranked[:most]


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A chunk in a document with a matching field.

    Attributes:
        terms, ranks: of the passage, see `livedex.pipeline.search.bm25`; None where the caller
            knows its score.
    """

    passage_id: int
    doc_id: int
    section: UUID
    terms: int | None
    ranks: Sequence[float] | None


class FieldRetriever:
    """Finds the fields of documents that match the words of one search.

    Args:
        connection: in a transaction of the tenant.
    """

    def __init__(
        self, connection: Connection, tenant_id: TenantId, selection: DocumentFilter
    ) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._selection = selection

    async def run(self, weights: Mapping[str, float], counts: WordStatistics) -> FieldScores:
        """Score the fields that hold words of a query.

        Args:
            weights: how much each word counts beside its idf, > 0, at least one.
            counts: how common the words are in passages, for a tenant whose fields were never
                counted.
        """
        weights = heaviest_words(weights, counts, MAX_FIELD_WORDS)
        mean_terms, counts = await self._statistics(list(weights), counts)
        words = sorted(weights, key=lambda word: counts.frequencies.get(word, 0))
        narrow = build_candidate_query(words, counts, _EXPECTED_FIELDS, weights)
        idf = np.array([weights[word] for word in words]) * inverse_document_frequencies(
            [max(1, counts.frequencies.get(word, 1)) for word in words], counts.passages
        )
        rows = await self._connection.fetch(
            sql("field_candidates"),
            narrow.tsquery,
            list(map(tsquery_literal, words)),
            list(idf),
            _MAX_FIELDS,
        )
        if not rows:
            return FieldScores()
        terms = np.maximum([row["terms"] for row in rows], 1)
        values = FIELD_WEIGHT * bm25_contributions(
            [row["held"] for row in rows], terms, idf, mean_terms or terms.mean()
        )
        return FieldScores(
            {
                (row["doc_id"], row["section"]): value
                for row, value in zip(rows, values, strict=True)
            }
        )

    async def places(
        self, scores: FieldScores, passages: Iterable[int], words: Sequence[str]
    ) -> list[FieldPlace]:
        """Find where passages stand in documents with matching fields, and the first chunks of the
        sections that match best.

        Args:
            scores: of the fields that match, at least one.
            passages: whose scores are known.
            words: of the query, for the ranks of the chunks that are added.
        """
        best = scores.best_sections(_MAX_SECTIONS)
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(
            sql("field_places"),
            self._tenant_id,
            list(passages),
            list({doc_id for doc_id, _ in scores.by_section}),
            [doc_id for doc_id, _ in best],
            [section for _, section in best],
            _CHUNKS_OF_SECTION,
            list(map(tsquery_literal, words)),
            *self._selection.arguments,
        )
        return [
            FieldPlace(row["passage_id"], row["doc_id"], row["section"], row["terms"], row["ranks"])
            for row in rows
        ]

    async def _statistics(
        self, words: list[str], counts: WordStatistics
    ) -> tuple[float, WordStatistics]:
        """Return the mean length of a field (0: not known), and how common words are in fields."""
        row: Any = await self._connection.fetchrow(sql("field_word_counts"), self._tenant_id, words)
        if not row["fields"]:
            return 0.0, counts
        known = zip(words, row["counts"], strict=True)
        frequencies = {word: count for word, count in known if count is not None}
        mean_terms = max(1.0, row["terms"] / row["fields"])
        return mean_terms, replace(counts, frequencies=frequencies, passages=row["fields"])
