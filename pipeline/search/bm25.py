"""BM25 over a handful of candidates.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.
The idf has 1 added, as in Lucene, so that it is never negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

K1 = 1.5
B = 0.75

# PostgreSQL says how often a word stands in a tsvector only by listing the whole vector, and by
# `ts_rank` of that word alone, which is
# 0.1 / (pi^2 / 6) times the sum of 1 / j^2 for each occurrence j, of which it keeps 255. The latter
# is ten times as quick.
# Source: calc_rank_or in PostgreSQL's tsrank.c.
_RANK_OF_ONE = 0.1 / 1.64493406685
_RANKS = np.cumsum(1 / np.arange(1, 256) ** 2.0) * _RANK_OF_ONE * (1 - 1e-6)


def inverse_document_frequencies(frequencies: ArrayLike, passages: int) -> NDArray[np.float64]:
    """The idf of words, > 0.

    Args:
        frequencies: shape (words,): in how many passages each stands, >= 1.
        passages: how many there are; a frequency above it is no error.
    """
    found = np.asarray(frequencies, dtype=np.float64)
    absent = np.maximum(passages - found, 0)
    return np.log(1 + (absent + 0.5) / (found + 0.5))


def term_frequencies(ranks: ArrayLike) -> NDArray[np.float64]:
    """How often words stand in passages, from 0 to 255, by the `ts_rank` of each word alone; of
    the same shape.
    """
    found = np.asarray(ranks, dtype=np.float64)
    return np.where(
        found > 0, np.minimum(np.searchsorted(_RANKS, found, side="right"), len(_RANKS)), 0
    ).astype(np.float64)


def bm25_contributions(
    counts: ArrayLike, terms: ArrayLike, idf: ArrayLike, mean_terms: float
) -> NDArray[np.float64]:
    """Return what each word adds to the BM25 score of each candidate.

    Args:
        counts: shape (candidates, words): how often each word stands in each candidate.
        terms: shape (candidates,): occurrences of all words, the length in BM25.
        idf: shape (words,), multiplied by a weight where a word counts other than once.
        mean_terms: the mean of `terms` over the whole collection, > 0.

    Returns:
        Shape (candidates, words), >= 0.
    """
    often = np.asarray(counts, dtype=np.float64)
    damping = K1 * (1 - B + B * np.asarray(terms, dtype=np.float64) / mean_terms)
    shares: NDArray[np.float64] = often * (K1 + 1) / (often + damping[:, None])
    return shares * np.asarray(idf, dtype=np.float64)


def bm25_scores(
    counts: ArrayLike, terms: ArrayLike, idf: ArrayLike, mean_terms: float
) -> NDArray[np.float64]:
    """Return the BM25 score of each candidate; arguments as for `bm25_contributions`."""
    scores: NDArray[np.float64] = bm25_contributions(counts, terms, idf, mean_terms).sum(axis=1)
    return scores
