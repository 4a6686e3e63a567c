"""BM25 over a handful of candidates.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.
The idf has 1 added, as in Lucene, so that it is never negative.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

K1 = 1.5
B = 0.75

# PostgreSQL says how often a word stands in a tsvector only by listing the whole vector, and by `ts_rank` of that word alone, which is
# 0.1 / (pi^2 / 6) times the sum of 1 / j^2 for each occurrence j, of which it keeps 255. The latter is ten times as quick.
# Source: calc_rank_or in PostgreSQL's tsrank.c.
_STEPS = list(accumulate(1 / j**2 for j in range(1, 256)))
_RANK_OF_ONE = 0.1 / 1.64493406685


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage and how often the query's words stand in it.

    Attributes:
        passage_id: its number.
        terms: occurrences of all words, the length in BM25.
        counts: occurrences of the query's words, > 0 each.
    """

    passage_id: int
    terms: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Collection:
    """What is known of all the passages that the candidates come from.

    Attributes:
        passages: how many there are, >= 1.
        mean_terms: their mean length, > 0.
        document_frequencies: in how many of them a word stands, >= 1 each; a word that is not there counts as standing in one.
    """

    passages: int
    mean_terms: float
    document_frequencies: Mapping[str, int]


@lru_cache(maxsize=1024)
def occurrences(rank: float) -> int:
    """How often a word stands in a passage, from 1 to 255, by the `ts_rank` > 0 of the word alone."""
    return min(len(_STEPS), bisect_left(_STEPS, rank / _RANK_OF_ONE * (1 - 1e-6)) + 1)


def scores(candidates: Sequence[Candidate], collection: Collection, weights: Mapping[str, float]) -> list[float]:
    """The BM25 score of each candidate, in the same order.

    Args:
        weights: of words that count other than once.
    """
    words: set[str] = set().union(*(candidate.counts for candidate in candidates))
    idf = {word: _idf(collection, word) * weights.get(word, 1.0) for word in words}
    return [_score(candidate, collection.mean_terms, idf) for candidate in candidates]


def _idf(collection: Collection, word: str) -> float:
    frequency = collection.document_frequencies.get(word, 1)
    return math.log(1 + (max(collection.passages, frequency) - frequency + 0.5) / (frequency + 0.5))


def _score(candidate: Candidate, mean_terms: float, idf: Mapping[str, float]) -> float:
    damping = K1 * (1 - B + B * candidate.terms / mean_terms)
    return math.fsum(idf[word] * count * (K1 + 1) / (count + damping) for word, count in candidate.counts.items())
