"""What passages must hold, and must not hold, for a query in the syntax `web`.

The keyword index narrows the candidates, and the text of each passage decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.exact_spelling import spelling_phrases
from livedex.pipeline.search.query_syntax import Term, TermKind, WebQuery
from livedex.pipeline.search.word_statistics import tsquery_literal
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.keyword_analyzer import (
    MAX_WORD_CHARACTERS,
    analyze_query,
    is_unspaced,
)
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.text.word_normalizer import fold_text, normalize_text

_SHORTEST_STEM = 3  # characters of the stem of a word that begins with a prefix
_BETWEEN_WORDS = r"[\W_]{1,8}"
_BETWEEN_UNSPACED = r"[\W_]{0,8}"
_BATCH_PASSAGES = 200
_MAX_COMPARISONS = 10_000  # of a passage with a term, for one query


class PassageCondition:
    """The condition of one query.

    Attributes:
        required: a tsquery that every passage meets; empty where the index cannot say it.
        excluded: a tsquery that no passage meets; empty where no words are excluded.
        examined: passages that are compared with it at most.
    """

    def __init__(
        self,
        connection: Connection,
        tenant_id: TenantId,
        query: WebQuery,
        tsqueries: Mapping[Term, str],
    ) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._query = query
        self._checks = [_TermCheck(term, tsqueries[term]) for term in tsqueries]
        self._of_term = {check.term: n for n, check in enumerate(self._checks)}
        groups = [[tsqueries[term] for term in group] for group in query.required]
        self.required = " & ".join(f"({' | '.join(group)})" for group in groups if all(group))
        words = (term for term in query.excluded if term.kind is TermKind.WORD)
        self.excluded = " | ".join(filter(None, (tsqueries[term] for term in words)))
        self.examined = max(_BATCH_PASSAGES, _MAX_COMPARISONS // len(tsqueries))

    def narrow(self, matching: str) -> str:
        """Return the tsquery of passages that match another one, too.

        Args:
            matching: a tsquery; empty: any passage.
        """
        parts = [f"({part})" for part in (matching, self.required) if part]
        if self.excluded:
            parts.append(f"!({self.excluded})")
        return " & ".join(parts)

    async def best(self, scores: Mapping[int, float], wanted: int) -> dict[int, float]:
        """Return the best passages that meet the condition.

        Args:
            scores: of passages.
            wanted: passages at least, where so many meet it.
        """
        ranked = sorted(scores, key=lambda passage_id: (-scores[passage_id], passage_id))
        ranked = ranked[: self.examined]
        found: dict[int, float] = {}
        for at in range(0, len(ranked), _BATCH_PASSAGES):
            kept = await self.meeting(ranked[at : at + _BATCH_PASSAGES])
            found |= {p: scores[p] for p in ranked[at : at + _BATCH_PASSAGES] if p in kept}
            if len(found) >= wanted:
                break
        return found

    async def meeting(self, passages: Iterable[int]) -> set[int]:
        """Return those of some passages that meet the condition."""
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(
            sql("passages_with_terms"),
            self._tenant_id,
            list(passages),
            [check.tsquery or None for check in self._checks],
            self.excluded or None,
        )
        return {row["passage_id"] for row in rows if self._is_met(row["content"], row["held"])}

    def _is_met(self, content: str, held: Sequence[bool | None]) -> bool:
        text = ""
        left = [
            group
            for group in self._query.required
            if not any(term.kind is TermKind.WORD and held[self._of_term[term]] for term in group)
        ]
        if left or self._query.excluded:
            text = fold_text(normalize_text(content))

        def stands(term: Term) -> bool:
            return self._checks[self._of_term[term]].stands_in(text)

        return all(any(map(stands, group)) for group in left) and not any(
            map(stands, self._query.excluded)
        )


class _TermCheck:
    """Compares one term with passages."""

    def __init__(self, term: Term, tsquery: str) -> None:
        self.term, self.tsquery = term, tsquery

    def stands_in(self, text: str) -> bool:
        """Return whether the term stands in the text of a passage.

        Args:
            text: folded.
        """
        return (
            self._words[0] in text
            and self._words[-1] in text
            and not self._is_symbol
            and self._pattern.search(text) is not None
        )

    @cached_property
    def _words(self) -> list[str]:
        return self.term.words

    @cached_property
    def _is_symbol(self) -> bool:
        return self.term.kind is TermKind.WORD and _has_symbols(self.term)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        words = self._words
        is_prefix = self.term.kind is TermKind.PREFIX
        found = "" if is_unspaced(words[0][0]) else r"(?<![^\W_])"
        for before, word in zip(["", *words], words, strict=False):
            if before:
                parted = not is_unspaced(before[-1]) and not is_unspaced(word[0])
                found += _BETWEEN_WORDS if parted else _BETWEEN_UNSPACED
            found += re.escape(word)
        return re.compile(
            found if is_prefix or is_unspaced(words[-1][-1]) else rf"{found}(?![^\W_])"
        )


def _has_symbols(term: Term) -> bool:
    """Return whether a term is more than its words: `C++`, `.NET`."""
    return bool(analyze_query(term.typed).identifiers) and not spelling_phrases([term.typed])


async def read_condition(
    connection: Connection, tenant_id: TenantId, query: WebQuery, config: str
) -> PassageCondition | None:
    """Return the condition of a query, None where it has none.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: the tenant.
        query: the parsed query.
        config: PostgreSQL's text search configuration.
    """
    terms = dict.fromkeys([*(term for group in query.required for term in group), *query.excluded])
    if not terms:
        return None
    phrases = [_phrases(term, config) for term in terms]
    rows: Sequence[str | None] = await connection.fetchval(
        sql("phrase_queries"),
        config,
        [phrase for each in phrases for phrase in each],
        [n for n, each in enumerate(phrases) for _ in each],
        len(phrases),
    )
    tsqueries = {
        term: " | ".join(filter(None, [found or "", *_lexemes(term)]))
        for term, found in zip(terms, rows, strict=True)
    }
    return PassageCondition(connection, tenant_id, query, tsqueries)


def _phrases(term: Term, config: str) -> list[str]:
    """Return words in a row for the dictionaries, of which a passage holds one."""
    if term.kind is TermKind.PREFIX or _has_symbols(term):
        return []
    found = [" ".join(word[:MAX_WORD_CHARACTERS] for word in term.words)]
    if term.kind is TermKind.WORD:
        found += spelling_phrases([term.typed])
    if any(is_unspaced(character) for character in found[0]):
        return []
    # as the index has them where stems depend on accents
    found.append(analyze_query(term.typed, config).text)
    return list(dict.fromkeys(found))


def _lexemes(term: Term) -> list[str]:
    """Return tsqueries of single lexemes."""
    words = term.words
    if any(is_unspaced(character) for word in words for character in word):
        pairs = analyze_query(" ".join(words)).text.split()
        return [" & ".join(tsquery_literal(pair) for pair in pairs)]
    if term.kind is TermKind.PREFIX:
        return [_prefix_query(words[-1][:MAX_WORD_CHARACTERS])]
    if term.kind is TermKind.WORD:
        return [tsquery_literal(lexeme) for lexeme in analyze_query(term.typed).identifiers]
    return []


def _prefix_query(prefix: str) -> str:
    """Return the tsquery of words that begin with a prefix: their stems begin with it, or are a
    beginning of it.
    """
    stems = [prefix[:n] for n in range(_SHORTEST_STEM, len(prefix))]
    stems += [f"{stem[:-1]}i" for stem in (*stems, prefix) if stem.endswith("y")]
    return " | ".join([f"{tsquery_literal(prefix)}:*", *map(tsquery_literal, stems)])
