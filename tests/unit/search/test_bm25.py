"""BM25: rare words count more, repetition ever less, long passages less."""

from __future__ import annotations

import math

import pytest

from livedex.pipeline.search.bm25 import (
    K1,
    B,
    bm25_scores,
    inverse_document_frequencies,
    term_frequencies,
)

IDF = inverse_document_frequencies([2, 900], 1000)  # of a rare word and a common one


def _score(rare: int = 0, common: int = 0, terms: int = 100) -> float:
    return float(bm25_scores([[rare, common]], [terms], IDF, 100.0)[0])


def test_the_formula_is_the_known_one() -> None:
    idf = math.log(1 + (1000 - 2 + 0.5) / (2 + 0.5))
    assert _score(rare=3, terms=150) == pytest.approx(
        idf * 3 * (K1 + 1) / (3 + K1 * (1 - B + B * 1.5))
    )


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    assert _score(rare=1) > 10 * _score(common=1) > 0


def test_words_add_up() -> None:
    assert _score(rare=1, common=2) == pytest.approx(_score(rare=1) + _score(common=2))


def test_repetition_counts_ever_less() -> None:
    assert _score(rare=2) - _score(rare=1) > _score(rare=3) - _score(rare=2) > 0


def test_the_same_words_in_a_longer_passage_count_less() -> None:
    assert _score(rare=1, terms=50) > _score(rare=1, terms=500)


def test_a_word_in_more_passages_than_are_known_is_no_error() -> None:
    assert bm25_scores([[1]], [0], inverse_document_frequencies([50], 1), 1.0)[0] > 0


def test_a_word_that_has_no_rank_does_not_occur() -> None:
    assert term_frequencies([[0.0, 0.0607927]]).tolist() == [[0, 1]]
