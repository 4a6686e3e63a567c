"""Diversity of an answer: maximal marginal relevance, and nucleus selection (top-p)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def maximal_marginal_relevance(
    relevance: Sequence[float], vectors: NDArray[np.float32], *, weight: float, most: int
) -> list[int]:
    """Order candidates so that each is relevant and unlike those before it.

    Args:
        relevance: of each candidate in [0, 1], best first.
        vectors: shape (candidates, dimensions), of length 1; zeros where one has no vector.
        weight: of relevance in [0, 1]; 1 keeps the order, 0 looks at diversity alone.
        most: candidates to choose.

    Returns:
        Indices of the chosen candidates, best first.

    Source: Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
    """
    left = np.ones(len(relevance), dtype=bool)
    closest = np.zeros(len(relevance))
    gain = weight * np.asarray(relevance, dtype=np.float64)
    chosen: list[int] = []
    while len(chosen) < min(most, len(relevance)):
        value = np.where(left, gain - (1 - weight) * closest, -np.inf)
        best = int(np.argmax(value))
        chosen.append(best)
        left[best] = False
        similarity = vectors @ vectors[best]
        closest = similarity if len(chosen) == 1 else np.maximum(closest, similarity)
    return chosen


def nucleus_size(scores: Sequence[float], top_p: float) -> int:
    """Return how many of the best candidates hold a share of the probability.

    Args:
        scores: best first; their softmax is the probability.
        top_p: in [0, 1].

    Returns:
        The least number whose probabilities add up to `top_p`, at least 1 where there are any.
    """
    if not scores:
        return 0
    best = max(scores)
    shares = [math.exp(score - best) for score in scores]
    total, reached = sum(shares), 0.0
    for n, share in enumerate(shares, 1):
        reached += share / total
        if reached >= top_p - 1e-12:
            return n
    return len(scores)
