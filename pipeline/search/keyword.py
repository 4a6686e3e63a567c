"""The keyword leg: any word of the query counts, the rare ones most.

Candidates are taken by the rarest words only, in order of document frequency until these add up to `Breadth.matches`; the best of
them by `ts_rank` over all words are scored again by BM25. So a word that everybody uses costs nothing, and an answer that needs all matches has them.
Where fewer candidates are visible or asked for than are wanted, every passage of the documents asked for is looked at instead.

A query of identifiers alone (`ERR_CONN_RESET`) is a look-up: it finds the passages that hold one of them exactly, where there are any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Any

from pipeline.model import TenantId
from pipeline.search.bm25 import Candidate, Collection, occurrences, scores
from pipeline.search.counts import Counts, quoted
from pipeline.search.selection import Selection
from pipeline.store.database import Connection
from pipeline.store.statements import sql
from pipeline.store.words import QueryWords

MAX_WORDS = 64  # that count in a query: the rarest
IDENTIFIER_WEIGHT = 1.5  # of an identifier, beside the words in it
COMPOUND_WEIGHT = 0.25  # of words with hyphens between, which say hardly more than the words


@dataclass(frozen=True, slots=True)
class Breadth:
    """How far the leg looks.

    Of 100,000 passages, of which most have near copies, the defaults find nine of the ten best of BM25 over every match, in a fifth of the
    time of ranking every match by `ts_rank`. Source: measured, see bench/search.py.

    Attributes:
        matches: passages that the words which choose candidates may stand in together.
        scored: the best of them by `ts_rank`, scored again by BM25.
    """

    matches: int = 5_000
    scored: int = 300


_DEFAULT_BREADTH = Breadth()


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


class KeywordLeg:
    """The keyword leg of one search.

    Args:
        connection: in a transaction of the tenant.
        wanted: passages at least, where so many match.
    """

    def __init__(
        self, connection: Connection, tenant_id: TenantId, selection: Selection, wanted: int, breadth: Breadth = _DEFAULT_BREADTH
    ) -> None:  # fmt: skip
        self._connection = connection
        self._tenant_id = tenant_id
        self._selection = selection
        self._wanted = wanted
        self._matches = max(breadth.matches, wanted)
        self._most = max(breadth.scored, wanted)

    async def run(self, query: QueryWords, counts: Counts) -> Keyword:
        """The best passages for the words of a query."""
        words = _rarest_first(counts)[:MAX_WORDS]
        if query.only_identifiers:
            found = await self._candidates(query.identifiers, words)
            if found.visible:
                return Keyword(self._scored(found, query, counts), True, words)
        chosen = _chosen(words, counts, self._matches)
        found = await self._candidates(chosen, words)
        if len(found.visible) < self._wanted and found.is_all and len(chosen) < len(words):  # the common words are rare in the selection
            found = await self._candidates(words, words)
        return Keyword(self._scored(found, query, counts), False, words)

    async def _candidates(self, narrow: Sequence[str], wide: Sequence[str]) -> _Found:
        """Passages that hold one of the narrow words, ranked by the wide ones; all of the selection where the best leave too few."""
        if not narrow:
            return _Found((), True)
        matching = f"({_any_of(narrow)}) & {quoted(_tenant_lexeme(self._tenant_id))}"
        arguments = (self._tenant_id, matching, _any_of(wide), self._most, list(map(quoted, wide)), *self._selection.arguments)
        rows = await self._connection.fetch(sql("keyword_candidates"), *arguments)
        if len(rows) == self._most and sum(row["visible"] for row in rows) < self._wanted:
            rows = await self._connection.fetch(sql("keyword_matches"), *arguments)
        return _Found([_candidate(row, wide) for row in rows if row["visible"]], len(rows) < self._most)

    def _scored(self, found: _Found, query: QueryWords, counts: Counts) -> dict[int, float]:
        """BM25 of the wanted best, and of those as good as the last of them."""
        seen = Counter(word for candidate in found.visible for word in candidate.counts)
        frequencies = {word: max(number, counts.frequencies.get(word, 0)) for word, number in seen.items()}
        weights = dict.fromkeys(query.exact, COMPOUND_WEIGHT) | dict.fromkeys(query.identifiers, IDENTIFIER_WEIGHT)
        collection = Collection(max(counts.passages, len(found.visible)), counts.mean_terms, frequencies)
        values = scores(found.visible, collection, weights)
        last = sorted(values, reverse=True)[: self._wanted][-1] if values else 0.0
        return {c.passage_id: value for c, value in zip(found.visible, values, strict=True) if value >= last}


@dataclass(frozen=True, slots=True)
class _Found:
    visible: Sequence[Candidate]
    is_all: bool  # that matches


def _candidate(row: Mapping[str, Any], words: Sequence[str]) -> Candidate:
    counts = {word: occurrences(rank) for word, rank in zip(words, row["ranks"], strict=True) if rank > 0}
    return Candidate(row["passage_id"], row["terms"], counts)


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


def _tenant_lexeme(tenant_id: str) -> str:
    return "@" + md5(tenant_id.encode(), usedforsecurity=False).hexdigest()[:12]


def _any_of(words: Iterable[str]) -> str:
    return " | ".join(map(quoted, words))
