"""The query syntax `web`: what is a condition, and what is only a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.search.query_syntax import (
    MAX_CONDITIONS,
    Term,
    TermKind,
    WebQuery,
    parse_web_query,
)
from livedex.pipeline.text.word_normalizer import fold_words, normalize_text


def _word(typed: str) -> Term:
    return Term(TermKind.WORD, typed)


def _phrase(typed: str) -> Term:
    return Term(TermKind.PHRASE, typed)


def _prefix(typed: str) -> Term:
    return Term(TermKind.PREFIX, typed)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("plain words", WebQuery("plain words")),
        (
            'a "needle  haystack" b',
            WebQuery("a needle haystack b", [(_phrase("needle haystack"),)]),
        ),
        (
            "“curly quotes” «x y»",
            WebQuery("curly quotes x y", [(_phrase("curly quotes"),), (_phrase("x y"),)]),
        ),
        ("tea -coffee", WebQuery("tea", (), [_word("coffee")])),
        ('-"iced tea" pot', WebQuery("pot", (), [_phrase("iced tea")])),
        ("-micro* -x", WebQuery("", (), [_prefix("micro"), _word("x")])),
        ("retr* policy", WebQuery("retr policy", [(_prefix("retr"),)])),
        ("cat OR dog food", WebQuery("cat dog food", [(_word("cat"), _word("dog"))])),
        (
            'a OR "b c" OR d*',
            WebQuery("a b c d", [(_word("a"), _phrase("b c"), _word("d"))]),
        ),
    ],
)
def test_operators_are_conditions(query: str, found: WebQuery) -> None:
    parsed = parse_web_query(query)
    assert parsed == WebQuery(found.text, tuple(found.required), tuple(found.excluded))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ('an "open quote', "an   open quote"),
        ("OR", "OR"),
        ("OR tea", "OR tea"),
        ("tea OR", "tea OR"),
        ("tea or coffee", "tea or coffee"),
        ("- tea", "- tea"),
        ("git --verbose", "git --verbose"),
        ("well-known", "well-known"),
        ("a*", "a"),
        ("* ** a**b", "* ** a**b"),
        ('""', "   "),
        ('"!?"', " !? "),
        ("-!", "-!"),
    ],
)
def test_what_has_no_operand_is_words(query: str, text: str) -> None:
    parsed = parse_web_query(query)
    assert not parsed.required and not parsed.excluded
    assert parsed.text.split() == text.split()


def test_conditions_are_bounded_and_the_rest_are_words() -> None:
    parsed = parse_web_query(" ".join(f'"a{n} b{n}"' for n in range(MAX_CONDITIONS + 5)))
    assert len(parsed.required) == MAX_CONDITIONS
    assert f"a{MAX_CONDITIONS + 4} b{MAX_CONDITIONS + 4}" in parsed.text


@given(st.text(st.sampled_from('ab"-*O R\u201cé日\t\x00'), max_size=40))
def test_every_text_is_a_query_and_no_word_is_lost(query: str) -> None:
    parsed = parse_web_query(query)
    terms = [*parsed.excluded, *(term for group in parsed.required for term in group)]
    assert all(term.words for term in terms)
    held = fold_words(normalize_text(f"{parsed.text} {' '.join(t.typed for t in terms)}")).split()
    operators = fold_words(normalize_text(query.replace("OR", " "))).split()
    assert set("".join(operators)) <= set("".join(held))
