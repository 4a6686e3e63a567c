"""What a passage must hold to be read by the keyword leg."""

from __future__ import annotations

import itertools
import math
import random
import re

import pytest

from livedex.pipeline.search.candidate_query import any_word_query, build_candidate_query
from livedex.pipeline.search.word_statistics import WordStatistics

PASSAGES = 100_000


def _counts(**frequencies: int) -> WordStatistics:
    return WordStatistics(
        sorted(frequencies, key=lambda word: frequencies[word]), frequencies, PASSAGES, 50.0
    )


def _meets(matching: str, held: set[str]) -> bool:
    """Whether a passage with these words is met by a tsquery of words, `&`, `|` and brackets."""
    expression = (
        re.sub(r"'(\w+)'", lambda word: str(word[1] in held), matching)
        .replace("&", " and ")
        .replace("|", " or ")
    )
    return bool(eval(expression))


def _subsets(words: list[str]) -> list[set[str]]:
    return [set(some) for n in range(len(words) + 1) for some in itertools.combinations(words, n)]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_weighs_more_than_what_is_not(seed: int) -> None:
    rng = random.Random(seed)
    counts = _counts(**{f"w{n}": rng.randint(2_000, 15_000) for n in range(rng.randint(2, 7))})
    matching, is_all = build_candidate_query(list(counts.words), counts, 300)
    weights = {
        subset: sum(-math.log(counts.frequencies[w] / PASSAGES) for w in subset)
        for subset in map(frozenset, _subsets([*counts.words]))
    }
    read = [weight for subset, weight in weights.items() if _meets(matching, {*subset})]
    left = [weight for subset, weight in weights.items() if not _meets(matching, {*subset})]
    assert not is_all and read and min(read) > max(left)


@pytest.mark.parametrize("seed", range(20))
def test_about_as_many_are_read_as_are_expected(seed: int) -> None:
    rng = random.Random(seed)
    counts = _counts(**{f"w{n}": rng.randint(1_000, 20_000) for n in range(7)})
    matching = build_candidate_query(list(counts.words), counts, 300).tsquery
    shares = {word: counts.frequencies[word] / PASSAGES for word in counts.words}
    chances = {
        frozenset(held): math.prod(
            share if word in held else 1 - share for word, share in shares.items()
        )
        for held in _subsets([*counts.words])
    }
    met = PASSAGES * sum(chance for held, chance in chances.items() if _meets(matching, {*held}))
    assert 100 < met <= 300


def test_the_rarest_words_are_enough_by_themselves() -> None:
    counts = _counts(rare=3, seldom=50, often=5_000, common=20_000)
    matching, is_all = build_candidate_query(["unknown", *counts.words], counts, 300)
    assert not is_all
    assert all(_meets(matching, {word}) for word in ("unknown", "rare", "seldom"))
    assert not _meets(matching, {"common"}) and not _meets(matching, {"often"})


def test_where_any_word_brings_few_nothing_is_narrowed() -> None:
    counts = _counts(a=200, b=300, c=500)
    assert build_candidate_query(list(counts.words), counts, 300) == (
        any_word_query(counts.words),
        True,
    )


def test_a_small_tenant_is_read_whole() -> None:
    counts = WordStatistics(["a", "b"], {"a": 900, "b": 1_000}, 1_100, 50.0)
    assert build_candidate_query(["a", "b"], counts, 300).matches_any_word


def test_words_that_everybody_uses_must_stand_together() -> None:
    counts = _counts(much=40_000, more=50_000, most=60_000)
    matching = build_candidate_query(list(counts.words), counts, 300).tsquery
    assert _meets(matching, {"much", "more", "most"}) and not _meets(matching, {"most"})


def test_one_common_word_is_looked_up_all_the_same() -> None:
    counts = _counts(common=90_000)
    assert build_candidate_query(["common"], counts, 300) == ("'common'", True)


def test_a_long_query_gives_a_short_condition() -> None:
    counts = _counts(**{f"w{n}": 2_000 + 100 * n for n in range(64)})
    assert len(build_candidate_query(list(counts.words), counts, 300).tsquery) < 2_000


def test_frequencies_above_the_number_of_passages_are_no_error() -> None:
    counts = WordStatistics(["a", "b"], {"a": 5_000, "b": 9_000}, 10, 50.0)
    assert build_candidate_query(["a", "b"], counts, 300).tsquery
