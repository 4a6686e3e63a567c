"""Spelling suggestions: the query with words that the reader's documents hold, in the place of
words that none of them holds.

A word is compared with the words of the tenant's index by the Damerau-Levenshtein distance of their
stems. Both whether a word is unknown and what is suggested depend only on documents that the reader
may read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from livedex.pipeline.search.highlights import content_words, read_lexemes
from livedex.pipeline.search.word_statistics import WordStatistics, tsquery_literal
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.keyword_analyzer import is_unspaced
from livedex.pipeline.store.postgres.statements import sql

MAX_TYPED_WORDS = 8  # of a query that finds something: a longer one does not hang on one word
MIN_LETTERS = 4  # of a word that is corrected
MAX_CORRECTED_WORDS = 4  # of a query
MAX_CHECKED_WORDS = 12  # of a query
_LONG_WORD = 7  # letters of a stem from which on two edits are allowed
_MAX_CANDIDATES = 30  # whose visibility is checked, for a word
_UNCOUNTED_PASSAGES = 50  # newest ones whose words are compared beside those that were counted
# the same while words are rare or not counted
_UNCOUNTED_PASSAGES_OF_SMALL_INDEX = 1_000
_SMALL_INDEX = 2_000  # passages


class SpellingSuggester:
    """Corrects the query of one search.

    Args:
        connection: in a transaction of the reader.
        config: PostgreSQL's text search configuration.
        is_restricted: whether the reader may not read every document of the tenant.
    """

    def __init__(self, connection: Connection, config: str, *, is_restricted: bool) -> None:
        self._connection = connection
        self._config = config
        self._is_restricted = is_restricted

    async def suggest(self, tenant_id: str, query: str, counts: WordStatistics) -> str | None:
        """Return the query with corrected words, None where there is nothing to correct.

        Args:
            query: as it was typed.
            counts: of its words.
        """
        likely = [
            word
            for word in counts.words
            if _is_word(word)
            and word not in counts.spellings
            and (self._is_restricted or word not in counts.frequencies)
        ][:MAX_CHECKED_WORDS]
        if not likely:
            return None
        known = await self._visible(likely)
        unknown = [word for word in likely if word not in known][:MAX_CORRECTED_WORDS]
        if not unknown:
            return None
        newest = _UNCOUNTED_PASSAGES
        if counts.is_sampled or counts.passages <= _SMALL_INDEX:
            newest = _UNCOUNTED_PASSAGES_OF_SMALL_INDEX
        corrections = {word: await self._correction(tenant_id, word, newest) for word in unknown}
        return await self._corrected(query, {w: c for w, c in corrections.items() if c})

    async def _visible(self, words: Sequence[str]) -> dict[str, int]:
        """Return those of some words that a readable passage holds, with one such passage."""
        rows = await self._connection.fetch(
            sql("visible_words"), [tsquery_literal(word) for word in words]
        )
        return {
            word: row["passage_id"]
            for word, row in zip(words, rows, strict=True)
            if row["passage_id"] is not None
        }

    async def _correction(self, tenant_id: str, word: str, newest: int) -> tuple[str, str] | None:
        """Return the lexeme that is nearest to a word, and the text of a passage that holds it."""
        most = 2 if len(word) >= _LONG_WORD else 1
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(
            sql("similar_words"),
            tenant_id,
            [f"%{piece}%" for piece in unchanged_pieces(word, most)],
            len(word) - most,
            len(word) + most,
            newest,
        )
        near = sorted(
            (distance, -_common_prefix(word, row["word"]), row["word"])
            for row in rows
            if (distance := edit_distance(word, row["word"], most)) <= most
        )[:_MAX_CANDIDATES]
        found = await self._visible([candidate for _, _, candidate in near])
        for _, _, candidate in near:
            if candidate in found:
                contents = await self._connection.fetch(
                    sql("contents_of"), tenant_id, [found[candidate]]
                )
                return candidate, contents[0]["content"] if contents else ""
        return None

    async def _corrected(
        self, query: str, corrections: Mapping[str, tuple[str, str]]
    ) -> str | None:
        lexemes = await read_lexemes(
            self._connection, self._config, [query, *(text for _, text in corrections.values())]
        )
        corrected = query
        for typed in content_words(query):
            for word in lexemes[typed] & corrections.keys():
                candidate, text = corrections[word]
                spelled = [each for each in content_words(text) if candidate in lexemes[each]]
                if spelled:
                    best = min(spelled, key=lambda each: (edit_distance(typed, each, 9), each))
                    pattern = re.compile(rf"(?<!\w){re.escape(typed)}(?!\w)", re.IGNORECASE)
                    corrected = best.join(pattern.split(corrected))
        return corrected if corrected != query else None


def _is_word(lexeme: str) -> bool:
    return len(lexeme) >= MIN_LETTERS and lexeme.isalpha() and not is_unspaced(lexeme[0])


def unchanged_pieces(word: str, edits: int) -> list[str]:
    """Return pieces of a word of which at least one stands in every word that so many edits change
    it to.

    Args:
        word: of at least `edits` + 1 letters.
        edits: insertions, deletions, substitutions, and swaps of neighbours.
    """
    size = len(word) / (edits + 1)
    borders = [round(n * size) for n in range(edits + 2)]
    pieces = [word[a:b] for a, b in pairwise(borders)]
    for border in borders[1:-1]:  # a swap there changes two pieces
        swapped = word[: border - 1] + word[border] + word[border - 1] + word[border + 1 :]
        pieces += [swapped[a:b] for a, b in pairwise(borders)]
    return list(dict.fromkeys(pieces))


def edit_distance(one: str, other: str, most: int) -> int:
    """Return the Damerau-Levenshtein distance of two words (optimal string alignment); `most` + 1
    where it is more than `most`.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def _common_prefix(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
