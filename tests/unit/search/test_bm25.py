"""BM25: rare words count more, repetition ever less, long passages less."""

from __future__ import annotations

import math

import pytest

from pipeline.search.bm25 import K1, B, Candidate, Collection, scores

COLLECTION = Collection(passages=1000, mean_terms=100.0, document_frequencies={"rare": 2, "common": 900})


def _score(terms: int = 100, **counts: int) -> float:
    return scores([Candidate(1, terms, counts)], COLLECTION, {})[0]


def test_the_formula_is_the_known_one() -> None:
    idf = math.log(1 + (1000 - 2 + 0.5) / (2 + 0.5))
    assert _score(150, rare=3) == pytest.approx(idf * 3 * (K1 + 1) / (3 + K1 * (1 - B + B * 1.5)))


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    assert _score(rare=1) > 10 * _score(common=1) > 0


def test_repetition_counts_ever_less() -> None:
    assert _score(rare=2) - _score(rare=1) > _score(rare=3) - _score(rare=2) > 0


def test_the_same_words_in_a_longer_passage_count_less() -> None:
    assert _score(50, rare=1) > _score(500, rare=1)


def test_weights_multiply_the_word() -> None:
    candidate = [Candidate(1, 100, {"rare": 1})]
    assert scores(candidate, COLLECTION, {"rare": 2.0})[0] == pytest.approx(2 * _score(rare=1))


def test_a_word_in_more_passages_than_are_known_is_no_error() -> None:
    assert scores([Candidate(1, 0, {"x": 1})], Collection(1, 1.0, {"x": 50}), {})[0] > 0


def test_without_candidates_there_are_no_scores() -> None:
    assert scores([], COLLECTION, {}) == []
