"""The keyword leg: any word of the query counts, the rare ones most.

Candidates are taken by the rarest words only, in order of document frequency until these add up to `MATCHES`; the best of them by `ts_rank`
over all words are scored again by BM25. So a word that everybody uses costs nothing, and an answer that needs all matches has them.
Where fewer candidates are visible or asked for than are wanted, every passage of the documents asked for is looked at instead.

A query of identifiers alone (`ERR_CONN_RESET`) is a look-up: it finds the passages that hold one of them exactly, where there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any

from pipeline.model import TenantId
from pipeline.search.bm25 import Candidate, Collection, scores
from pipeline.search.selection import Selection
from pipeline.store.database import Connection, Database
from pipeline.store.statements import sql
from pipeline.store.words import EXACT, QueryWords

MATCHES = 10_000  # passages that the words which choose candidates stand in together; Source: measured, see bench/search.py
SCORED = 300  # of these by ts_rank
MAX_WORDS = 64  # that count in a query: the rarest
EXACT_WEIGHT = 1.5  # of an exact token beside its words
MIN_COUNTED_PASSAGES = 3  # a word in fewer passages is rare without being counted
LAG = 0.1  # share of the passages that may have changed since the words were counted


@dataclass(frozen=True, slots=True)
class Counts:
    """A query's words in the tenant's index.

    Attributes:
        words: lexemes in the order of the query, exact tokens last.
        frequencies: in how many passages a word stood when words were last counted; rare words have none.
        passages: counted then; None: never counted.
        terms: occurrences of words in all of these.
    """

    words: Sequence[str]
    frequencies: Mapping[str, int]
    passages: int | None
    terms: int | None


@dataclass(frozen=True, slots=True)
class Keyword:
    """What the keyword leg found.

    Attributes:
        scores: BM25 by passage, of visible passages that are asked for.
        is_lookup: whether these hold an identifier that was looked up.
        words: what was looked for.
    """

    scores: Mapping[int, float]
    is_lookup: bool = False
    words: Sequence[str] = ()


async def keyword_leg(
    connection: Connection, tenant_id: TenantId, query: QueryWords, counts: Counts, selection: Selection, wanted: int
) -> Keyword:
    """The best passages by keywords.

    Args:
        connection: in a transaction of the tenant.
        wanted: passages at least, where so many match.
    """
    words = _rarest_first(counts)[:MAX_WORDS]
    if query.only_identifiers:
        held = [word for word in query.identifiers if word in counts.words]
        found = await _candidates(connection, tenant_id, held, words, selection, wanted)
        if found.visible:
            return Keyword(_scored(found, counts), True, words)
    chosen = _chosen(words, counts, max(MATCHES, wanted))
    found = await _candidates(connection, tenant_id, chosen, words, selection, wanted)
    if len(found.visible) < wanted and len(chosen) < len(words) and found.complete:  # words thought common are not
        found = await _candidates(connection, tenant_id, words, words, selection, wanted)
    return Keyword(_scored(found, counts), False, words)


@dataclass(frozen=True, slots=True)
class _Found:
    visible: Sequence[Candidate]
    complete: bool  # whether these are all that match


async def _candidates(
    connection: Connection, tenant_id: TenantId, narrow: Sequence[str], wide: Sequence[str], selection: Selection, wanted: int
) -> _Found:
    """Passages that hold one of the narrow words, ranked by the wide ones; all of the selection where the best leave too few."""
    if not narrow:
        return _Found((), True)
    most = max(SCORED, wanted)
    matching = f"({_any_of(narrow)}) & {_quoted(_tenant_lexeme(tenant_id))}"
    arguments = (tenant_id, matching, _any_of(wide), most, list(wide), *selection.arguments)
    rows = await connection.fetch(sql("keyword_candidates"), *arguments)
    if len(rows) == most and sum(row["visible"] for row in rows) < wanted:
        rows = await connection.fetch(sql("keyword_matches"), *arguments)
    return _Found([_candidate(row) for row in rows if row["visible"]], len(rows) < most)


def _candidate(row: Mapping[str, Any]) -> Candidate:
    return Candidate(row["passage_id"], row["terms"], dict(zip(row["words"] or (), row["counts"] or (), strict=True)))


def _rarest_first(counts: Counts) -> list[str]:
    return sorted(counts.words, key=lambda word: counts.frequencies.get(word, 0))


def _chosen(words: Sequence[str], counts: Counts, most: int) -> list[str]:
    """The rarest words, as long as they do not stand in more than `most` passages together; at least one."""
    chosen: list[str] = []
    total = 0
    for word in words:
        total += counts.frequencies.get(word, 0)
        if chosen and total > most:
            break
        chosen.append(word)
    return chosen


def _scored(found: _Found, counts: Counts) -> dict[int, float]:
    candidates = found.visible
    if not candidates:
        return {}
    seen: dict[str, int] = {}
    for candidate in candidates:
        for word in candidate.counts:
            seen[word] = seen.get(word, 0) + 1
    frequencies = {word: max(number, counts.frequencies.get(word, 0)) for word, number in seen.items()}
    passages = max(counts.passages or 0, len(candidates))
    terms = counts.terms if counts.passages and counts.terms else sum(candidate.terms for candidate in candidates)
    mean_terms = max(1.0, terms / (counts.passages if counts.passages and counts.terms else len(candidates)))
    weights = {word: EXACT_WEIGHT for word in seen if word.startswith(EXACT)}
    found_scores = scores(candidates, Collection(passages, mean_terms, frequencies), weights)
    return {candidate.passage_id: score for candidate, score in zip(candidates, found_scores, strict=True)}


def _tenant_lexeme(tenant_id: str) -> str:
    return "@" + md5(tenant_id.encode(), usedforsecurity=False).hexdigest()[:12]


def _any_of(words: Iterable[str]) -> str:
    return " | ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """A lexeme as PostgreSQL reads it in a tsquery."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


async def read_counts(connection: Connection, tenant_id: TenantId, config: str, query: QueryWords, index: str) -> tuple[Counts, bool]:
    """What is known of a query's words, and whether the vector index of this name can be used."""
    row: Any = await connection.fetchrow(sql("query_words"), tenant_id, config, query.text, list(query.exact), index)
    words = row["words"] or []
    frequencies = {word: count for word, count in zip(words, row["counts"] or [], strict=True) if count is not None}
    return Counts(words, frequencies, row["passages"], row["terms"]), bool(row["indexed"])


async def refresh_word_counts(database: Database, tenant_id: TenantId) -> bool:
    """Count a tenant's words anew when more than `LAG` of its passages came or went since the last time.

    Returns:
        Whether they were counted.
    """
    async with database.tenant(tenant_id, "count words") as connection:
        changes: Any = await connection.fetchrow(sql("word_count_changes"), tenant_id)
        if changes["counted"] is not None or changes["passages"] == 0:
            counted = changes["counted"] or 0
            gone = max(0, counted + changes["added"] - changes["passages"])
            if changes["added"] + gone <= LAG * counted:
                return False
        if not await connection.fetchval(sql("lock_word_counts"), tenant_id):
            return False
        await connection.execute(sql("count_words"), tenant_id, MIN_COUNTED_PASSAGES)
        await connection.execute(sql("count_passages"), tenant_id)
        return True
