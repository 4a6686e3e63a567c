"""Which passages the keyword retriever reads: those that share with the query words that are rare
enough
together.

Reading a passage is what costs, so the index decides as much as it can before. A passage is read
when its words of the query weigh as much as a bound, each word by how rare it is. The bound is the
lowest at which no more passages are expected than shall be read, if words stood independently of
each other; since words of one matter stand together, about twice as many come. What is below the
bound could hardly
be among the best: BM25 adds up the same weights.

The bound is said to PostgreSQL as a boolean query, `a & (b | c) | b & c`, which its index answers
from lists of passages alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from livedex.pipeline.search.word_statistics import WordStatistics, tsquery_literal

# words that are looked at together, the rarest: with each one more the query to the index doubles
# at worst
MAX_COMBINED_WORDS = 7
# a word that weighs less, being in more than a fifth of the passages, says too little to be looked
# up
MIN_WORD_WEIGHT = 1.5
_ALONE = 0.4  # share of what shall be read that the rarest words may bring, each by itself
_EVERY = 4  # times what shall be read: where any word brings no more, there is nothing to narrow
_EXACT = 1e-9  # below this a sum of weights is zero


class CandidateQuery(NamedTuple):
    """What a passage must hold to be read.

    Attributes:
        tsquery: as a tsquery.
        matches_any_word: whether everything that holds a word of the query meets it.
    """

    tsquery: str
    matches_any_word: bool


class _Word(NamedTuple):
    lexeme: str
    share: float  # of the passages that hold it
    weight: float  # > 0


def build_candidate_query(
    words: Sequence[str],
    counts: WordStatistics,
    expected: int,
    weights: Mapping[str, float] | None = None,
) -> CandidateQuery:
    """A condition that about `expected` passages meet, or everything that holds a word where that
    is not many times more.

    Args:
        words: of the query, the rarest first, at least one.
        counts: how common words are.
        expected: > 0.
        weights: how much words count, beside how rare they are; 1 where none is given.
    """
    counted = weights or {}
    frequencies = [max(1, counts.frequencies.get(word, 0)) for word in words]
    passages = max(counts.passages, *frequencies)
    alone = 0
    while alone < len(words) and sum(frequencies[: alone + 1]) <= _ALONE * expected:
        alone += 1
    rest = [
        _Word(w, f / passages, counted.get(w, 1.0) * math.log((passages + 1) / f))
        for w, f in zip(words[alone:], frequencies[alone:], strict=True)
    ]
    if passages * (1 - math.prod(1 - word.share for word in rest)) <= _EVERY * expected:
        return CandidateQuery(any_word_query(words), True)
    combined = [
        word
        for n, word in enumerate(rest[:MAX_COMBINED_WORDS])
        if n < 2 or -math.log(word.share) >= MIN_WORD_WEIGHT
    ]
    together = _as_query(combined, _bound(combined, expected / passages))
    return CandidateQuery(
        " | ".join([*map(tsquery_literal, words[:alone]), *together]),
        {*together} == {tsquery_literal(word.lexeme) for word in rest},
    )


def any_word_query(words: Iterable[str]) -> str:
    """The tsquery of passages that hold one of some words."""
    return " | ".join(map(tsquery_literal, words))


def _bound(words: Sequence[_Word], share: float) -> float:
    """The lowest sum of weights that no more than a share of the passages reach; what all words
    weigh where even that is more.
    """
    subsets = [(0.0, 1.0)]
    for word in words:
        subsets = [
            (weight + more, likely * chance)
            for weight, likely in subsets
            for more, chance in ((0.0, 1 - word.share), (word.weight, word.share))
        ]
    subsets.sort(reverse=True)
    bound, reached = subsets[0][0], 0.0
    for weight, likely in subsets:
        reached += likely
        if reached > share or weight < _EXACT:
            break
        bound = weight
    return bound


def _as_query(words: Sequence[_Word], bound: float) -> tuple[str, ...]:
    """The alternatives of a tsquery that is met by whatever holds words of at least a weight
    together; none of them implies another.
    """
    left = [sum(word.weight for word in words[n:]) for n in range(len(words) + 1)]

    @cache
    def alternatives(n: int, lacking: float) -> tuple[str, ...] | None:
        """Ways to gain what is lacking by the words from the n-th on; None: nothing is lacking."""
        if lacking < _EXACT:
            return None
        if left[n] < lacking - _EXACT:
            return ()
        without = alternatives(n + 1, lacking) or ()
        more = alternatives(n + 1, lacking - words[n].weight)
        if more is None:
            return (tsquery_literal(words[n].lexeme), *without)
        new = [way for way in more if way not in without]
        return (
            (f"{tsquery_literal(words[n].lexeme)} & ({' | '.join(new)})", *without)
            if new
            else without
        )

    return alternatives(0, bound) or ()
