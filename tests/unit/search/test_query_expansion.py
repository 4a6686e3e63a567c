"""RM3: the weights of an expanded query, and the passages that are taken for relevant."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.search.fusion import ChunkPosition, min_max_fusion, scaled
from livedex.pipeline.search.query_expansion import (
    EXPANSION_TERMS,
    FEEDBACK_PASSAGES,
    QUERY_WEIGHT,
    expanded_weights,
    feedback_passages,
)

WORDS = [f"w{n}" for n in range(60)]
WEIGHTS = st.dictionaries(st.sampled_from(WORDS), st.floats(0.1, 9), min_size=1, max_size=10)
RELEVANCE = st.dictionaries(st.sampled_from(WORDS), st.floats(0.001, 1), min_size=1)
FREQUENCIES = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 5_000))
SCORES = st.dictionaries(st.integers(0, 40), st.floats(-1, 50))


@given(WEIGHTS, RELEVANCE, FREQUENCIES)
def test_weights_are_those_of_rm3(
    weights: dict[str, float], relevance: dict[str, float], frequencies: dict[str, int]
) -> None:
    passages = 5_000
    found = expanded_weights(weights, relevance, frequencies, passages)

    def value(word: str) -> float:
        stands_in = frequencies.get(word, 1)
        return relevance[word] * math.log(1 + (passages - stands_in + 0.5) / (stands_in + 0.5))

    best = sorted(relevance, key=lambda word: (-value(word), word))[:EXPANSION_TERMS]
    total = sum(relevance[word] for word in best)
    asked = sum(weights.values())
    expected = {word: QUERY_WEIGHT * weight for word, weight in weights.items()}
    for word in best:
        share = (1 - QUERY_WEIGHT) * asked * relevance[word] / total
        expected[word] = expected.get(word, 0) + share
    assert found == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(asked)


@given(SCORES, SCORES, st.floats(0, 1), st.integers(0, 2_000))
def test_feedback_is_the_best_of_both_retrievers(
    vectors: dict[int, float], keyword: dict[int, float], weight: float, passages: int
) -> None:
    found = feedback_passages(vectors, keyword, weight, passages)
    assert len(found) <= min(FEEDBACK_PASSAGES, passages / 50)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    shares = {
        n: weight * scaled(vectors).get(n, 0) + (1 - weight) * scaled(keyword).get(n, 0)
        for n in {*vectors, *keyword}
    }
    left = [value for n, value in shares.items() if n not in found]
    assert all(found[n] == pytest.approx(shares[n]) and found[n] > 0 for n in found)
    assert not found or max(left, default=0) <= min(found.values()) + 1e-9


@given(SCORES, SCORES, st.floats(0, 1))
def test_min_max_fusion_equals_the_textbook(
    vectors: dict[int, float], keyword: dict[int, float], weight: float
) -> None:
    def place(n: int) -> ChunkPosition:
        return ChunkPosition(str(n), n, n)

    def share(scores: dict[int, float], n: int) -> float:
        if n not in scores:
            return 0.0
        low, high = min(scores.values()), max(scores.values())
        return 1.0 if high <= low else (scores[n] - low) / (high - low)

    legs = [
        ({place(n): score for n, score in vectors.items()}, weight),
        ({place(n): score for n, score in keyword.items()}, 1 - weight),
    ]
    expected = {
        place(n): weight * share(vectors, n) + (1 - weight) * share(keyword, n)
        for n in {*vectors, *keyword}
    }
    fused = min_max_fusion(legs)
    assert dict(fused) == pytest.approx(expected)
    assert [value for _, value in fused] == sorted((value for _, value in fused), reverse=True)
