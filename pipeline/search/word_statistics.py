"""How common words are in a tenant's passages.

The counts are refreshed now and then: counting in every write would make hot rows of the commonest
words. While they lag behind, or were never made, a spread sample of the passages stands for them,
which says of common words how common they are and of rare ones that they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.bm25 import inverse_document_frequencies
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.keyword_analyzer import KeywordQuery
from livedex.pipeline.store.postgres.statements import sql

# share of the passages that may have come or gone since the words were counted
MAX_STALE_SHARE = 0.1
MIN_COUNTED_PASSAGES = 3  # a word in fewer passages is rare without being counted
SAMPLE_SIZE = 500  # passages that stand for all while the counts lag
MAX_PASSAGES = 50_000  # passages beyond these are not told apart while the counts lag


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """A query's words in a tenant's index.

    Attributes:
        words: lexemes in the order of the query, exact tokens last.
        frequencies: in about how many passages a word stands; rare words have none.
        passages: about how many there are, >= 0.
        mean_terms: occurrences of words in one of them, on average, > 0.
        is_one_of_many: whether most of the passages in the index are other tenants'.
        repeats: how often the query asks for a word, where more than once.
        is_sampled: whether a sample stands for counts that lag or were never made.
        spellings: those of `words` that are other spellings of what was asked.
    """

    words: Sequence[str]
    frequencies: Mapping[str, int]
    passages: int
    mean_terms: float
    is_one_of_many: bool = True
    repeats: Mapping[str, int] = field(default_factory=dict)
    is_sampled: bool = False
    spellings: frozenset[str] = frozenset()


async def read_word_statistics(
    connection: Connection, tenant_id: TenantId, config: str, query: KeywordQuery, index: str
) -> tuple[WordStatistics, bool]:
    """What is known of a query's words, and whether the vector index of this name can be used."""
    row: Any = await connection.fetchrow(
        sql("query_words"),
        tenant_id,
        config,
        query.text,
        list(query.exact),
        MAX_STALE_SHARE,
        index,
        query.spellings,
    )
    words, counts = row["words"] or [], row["counts"] or []
    repeats = {
        word: times for word, times in zip(words, row["repeats"] or [], strict=True) if times > 1
    }
    spellings = frozenset(row["spellings"] or ())
    if not row["passages"] or row["lags"]:
        sampled = await _sampled(connection, tenant_id, words)
        return replace(sampled, repeats=repeats, is_sampled=True, spellings=spellings), bool(
            row["indexed"]
        )
    frequencies = {
        word: count for word, count in zip(words, counts, strict=True) if count is not None
    }
    passages, mean_terms = row["passages"], max(1.0, row["terms"] / row["passages"])
    one_of_many = 2 * passages < row["stored"]
    return (
        WordStatistics(
            words,
            frequencies,
            passages,
            mean_terms,
            one_of_many,
            repeats,
            spellings=spellings,
        ),
        bool(row["indexed"]),
    )


async def _sampled(
    connection: Connection, tenant_id: TenantId, words: Sequence[str]
) -> WordStatistics:
    row: Any = await connection.fetchrow(
        sql("sample_words"),
        tenant_id,
        [tsquery_literal(word) for word in words],
        SAMPLE_SIZE,
        MAX_PASSAGES,
    )
    if not row["sampled"]:
        return WordStatistics(words, {}, 0, 1.0)
    share = row["passages"] / row["sampled"]
    frequencies = {
        word: round(count * share)
        for word, count in zip(words, row["counts"], strict=True)
        if count
    }
    return WordStatistics(
        words, frequencies, row["passages"], max(1.0, row["terms"] / row["sampled"])
    )


async def sample_frequencies(
    connection: Connection, tenant_id: TenantId, words: Sequence[str], passages: int
) -> dict[str, int]:
    """Estimate from a sample in how many passages words stand; words that it lacks are left out.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: the tenant.
        words: lexemes, each once.
        passages: of the tenant, about.
    """
    rows = await connection.fetch(sql("sample_frequencies"), tenant_id, list(words), SAMPLE_SIZE)
    return {row["word"]: max(1, round(row["passages"] * passages / row["sampled"])) for row in rows}


def heaviest_words(
    weights: Mapping[str, float], counts: WordStatistics, most: int
) -> Mapping[str, float]:
    """Keep the words of a query that weigh most, each by its weight times its idf."""
    if len(weights) <= most:
        return weights
    words = list(weights)
    idf = inverse_document_frequencies(
        [max(1, counts.frequencies.get(word, 1)) for word in words], counts.passages
    )
    heavy = {word: weights[word] * value for word, value in zip(words, idf.tolist(), strict=True)}
    return {word: weights[word] for word in sorted(words, key=heavy.__getitem__)[-most:]}


def tsquery_literal(word: str) -> str:
    """A lexeme as PostgreSQL reads it in a tsquery."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


async def refresh_word_statistics(database: Database, tenant_id: TenantId) -> bool:
    """Count a tenant's words anew when more than `LAG` of its passages came or went since the last
    time.

    Returns:
        Whether they were counted.
    """
    async with database.tenant(tenant_id, "count words") as connection:
        row: Any = await connection.fetchrow(sql("word_count_changes"), tenant_id, MAX_STALE_SHARE)
        counted = row["counted"] or 0
        if (
            row["added"] <= MAX_STALE_SHARE * counted
            and row["chunks"] >= (1 - MAX_STALE_SHARE) * counted
        ):
            return False
        return await _count_words(connection, tenant_id)


async def recount_words(database: Database, tenant_id: TenantId) -> bool:
    """Count a tenant's words anew, however few of its passages came or went.

    Returns:
        Whether they were counted; False while another process counts them.
    """
    async with database.tenant(tenant_id, "count words") as connection:
        return await _count_words(connection, tenant_id)


async def _count_words(connection: Connection, tenant_id: TenantId) -> bool:
    if not await connection.fetchval(sql("lock_word_counts"), tenant_id):
        return False
    await connection.execute(sql("count_words"), tenant_id, MIN_COUNTED_PASSAGES)
    await connection.execute(sql("count_passages"), tenant_id)
    await connection.execute(sql("count_field_words"), tenant_id, MIN_COUNTED_PASSAGES)
    await connection.execute(sql("count_fields"), tenant_id)
    return True
