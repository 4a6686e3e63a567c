"""Spellings: whatever is typed, the words of a query meet those of a text in another spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.store.keyword_analyzer import analyze_query, analyze_text
from livedex.pipeline.text.word_normalizer import (
    camel_case_parts,
    compound_spellings,
    fold_words,
    is_camel_case_name,
    normalize_text,
)
from tests.support.builders.spelling_pairs import SPELLING_PAIRS

PAIRS = [pair for pairs in SPELLING_PAIRS.values() for pair in pairs]


def test_there_are_enough_pairs_and_none_twice() -> None:
    assert len(PAIRS) == len(set(PAIRS)) >= 300
    assert all(one != other for one, other in PAIRS)
    assert len(SPELLING_PAIRS) >= 15


@pytest.mark.parametrize("config", ["english", "pg_catalog.french"])
@pytest.mark.parametrize("script", SPELLING_PAIRS)
def test_each_spelling_shares_a_lexeme_with_the_other(script: str, config: str) -> None:
    for pair in SPELLING_PAIRS[script]:
        for typed, written in (pair, pair[::-1]):
            query = analyze_query(typed, config)
            text = analyze_text(f"It says {written} there.", config)
            asked = {*query.text.split(), *query.spellings.split(), *query.exact}
            held = {*text.words.split(), *text.spellings.split(), *text.exact}
            assert asked & held, (typed, written)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("café Ærø ñandú", "cafe aero nandu"),
        ("мой ёж їжак", "мой еж їжак"),
        ("がく はく", "がく がく"),
        ("कीमत कमत", "कीमत कमत"),
    ],
)
def test_letters_that_only_look_like_marked_ones_stay(text: str, words: str) -> None:
    first, second = words.split()[:2]
    if text.startswith("が"):
        assert fold_words("はく") != fold_words("ばく")
    else:
        assert fold_words(normalize_text(text)) == words and first != second


def test_a_stemmer_that_knows_accents_gets_them() -> None:
    found = analyze_text("général", "french")
    assert (found.words, found.spellings) == ("général", "general")
    assert analyze_text("général").words == "general"
    assert analyze_query("général", "french").spellings == "general"


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("maxRetryCount", ["max", "Retry", "Count"]),
        ("HTTPServer", ["HTTP", "Server"]),
        ("getURL", ["get", "URL"]),
        ("Word", ["Word"]),
        ("WORD", ["WORD"]),
        ("ÉtatMajor", ["État", "Major"]),
        ("привет", ["привет"]),
    ],
)
def test_capitals_inside_begin_a_part(word: str, parts: list[str]) -> None:
    assert camel_case_parts(word) == parts


@pytest.mark.parametrize(
    ("word", "is_name"),
    [
        ("getUser", True),
        ("HttpClientFactory", True),
        ("JavaScript", False),
        ("iPhone", False),
        ("Word", False),
    ],
)
def test_a_name_of_a_program_is_an_identifier_and_a_brand_is_a_word(
    word: str, is_name: bool
) -> None:
    assert is_camel_case_name(word) is is_name
    assert (f"={word.lower()}" in analyze_text(f"call {word}, please").exact) is is_name


def test_other_spellings_change_neither_the_words_nor_their_order() -> None:
    found = analyze_text("Send an e-mail to O'Brien about maxRetryCount")
    assert found.words == "send an e mail to o brien about maxretrycount"
    assert found.spellings == "count email max obrien retry"


@given(st.text(st.sampled_from("aBc1 -_'’.*`~<b>/\u200b\u00adéç\\&;ـ日"), max_size=60))
def test_every_text_finds_itself(text: str) -> None:
    query, found = analyze_query(text), analyze_text(text)
    held = set(found.words.split())
    assert {word for word in query.text.split() if word not in held} <= set()
    assert set(query.identifiers) <= set(query.exact)
    assert not any(" " in word for word in fold_words(normalize_text(text)).split())


@pytest.mark.parametrize("unit", ["x", "x-", "x'", "<b>", "aB", "1,", "a.", "é-", "&#1;", "\\_"])
def test_compounds_of_any_length_take_time_in_proportion(unit: str) -> None:
    assert all(len(each) <= 200 for each in compound_spellings([normalize_text(unit * 60_000)]))
