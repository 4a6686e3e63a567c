"""Words for the index: what is one word, what is an exact token, and that no input is too much."""

from __future__ import annotations

import pytest

from livedex.pipeline.store.keyword_analyzer import (
    MAX_INDEXED_BYTES,
    MAX_QUERY_OCCURRENCES,
    MAX_QUERY_TERMS,
    MAX_WORD_CHARACTERS,
    analyze_query,
    analyze_text,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fill the <b>tank</b> a/b a.b.c", "fill the b tank b a b a b c"),
        ("don't O'Brien", "don t o brien"),
        ("snake_case CamelCase", "snake case camelcase"),
        ("a\x00b\tc\u00a0d\u2028e", "a b c d e"),
        ("soft\u00adhyphen zero\u200bwidth \ufeffbom", "softhyphen zero width bom"),
        ("ﬁne Ⅷ ＡＢＣ", "fine viii abc"),
        ("Straße İ", "strasse i"),
        ("लोमड़ी and நரி", "लोमडी and நரி"),
        ("🦊 … — “¿?” ::", ""),
    ],
)
def test_words_are_runs_of_letters_digits_and_marks(text: str, words: str) -> None:
    assert analyze_text(text)[0] == words


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("这是一个测试", "测试"),
        ("日本語のテスト", "テスト"),
        ("ภาษาไทยง่าย", "ไทย"),
        ("여우가 뛴다", "여우"),
        ("部署方案", "署"),
    ],
)
def test_what_stands_inside_a_run_without_spaces_is_among_its_words(text: str, query: str) -> None:
    assert set(analyze_query(query).text.split()) <= set(analyze_text(text)[0].split())


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("See ERR_CONN_RESET.", "err_conn_reset"),
        ("(v10.4.0-rc1)", "v10.4.0-rc1"),
        ("written in C++, they say", "c++"),
        ("`C#`?", "c#"),
        ("on .NET;", ".net"),
        ("at 192.168.0.1.", "192.168.0.1"),
        ("<user@example.org>", "user@example.org"),
        ("mailto:user@example.org", "user@example.org"),
        ("http://10.0.0.7:8080/x", "10.0.0.7"),
        ("CVE-2024-1234:", "cve-2024-1234"),
        ("请使用v10.4.0版本", "v10.4.0"),
        ("call `__init__`", "__init__"),
        ("*snake_case*", "snake_case"),
        ("/etc/nginx/nginx.conf", "etc/nginx/nginx.conf"),
        ("std::vector<int>", "std::vector"),
        ("max_connections=100", "max_connections"),
        ("a twenty-eight-day month", "twenty-eight-day"),
        ("0x80070057 and k8s", "0x80070057"),
    ],
)
def test_a_piece_with_more_than_its_words_is_an_exact_token(text: str, token: str) -> None:
    assert f"={token}" in analyze_text(text)[1]
    assert analyze_query(token.upper()).exact == (f"={token}",)


@pytest.mark.parametrize(
    "text",
    [
        "plain words, only. (really)",
        "the end...",
        "-foo",
        "!!a & | b",
        "- -- # ## + ++ / : ... _ __",
        "don't",
    ],
)
def test_words_and_punctuation_are_no_exact_tokens(text: str) -> None:
    assert analyze_text(text)[1] == []
    assert analyze_query(text).exact == ()


@pytest.mark.parametrize(
    ("held", "other"),
    [
        ("v10.4.0-rc1", "v10.4.0"),
        ("192.168.0.10", "192.168.0.1"),
        ("user@example.net", "user@example.org"),
        ("C++", "C"),
    ],
)
def test_an_identifier_is_not_its_neighbour(held: str, other: str) -> None:
    assert f"={other.lower()}" not in analyze_text(f"We use {held} here.")[1]


@pytest.mark.parametrize(
    "query",
    [
        "ERR_CONN_RESET",
        "v10.4.0-rc1?",
        "C++",
        '"192.168.0.1"',
        "ERR_A ERR_B",
        "X-Request-ID",
        "2024",
    ],
)
def test_a_query_of_identifiers_alone_is_a_look_up(query: str) -> None:
    assert analyze_query(query).only_identifiers


@pytest.mark.parametrize(
    "query",
    [
        "what is ERR_CONN_RESET",
        "well-known",
        "espresso",
        "the and of",
        "",
        "🦊",
        "测试 v10.4.0",
        "a & b",
    ],
)
def test_a_query_with_words_is_none(query: str) -> None:
    assert not analyze_query(query).only_identifiers


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "word " * 10_000,
        " ".join(f"w{n}" for n in range(100_000)),
        "测试" * 50_000,
        "🦊" * 30_000,
        "a" + "\u0301" * 50_000,
        "." * 100_000 + "x",
        "+#" * 50_000,
        "a/" * 50_000,
        "-" * 100_000 + "a",
        "a_" * 50_000,
        "\U0001d4b3" * 50_000,
        "ﷺ" * 50_000,
    ],
    ids=lambda text: ascii(text[:4]),
)
def test_whatever_the_input_what_comes_out_is_bounded(text: str) -> None:
    words, exact, spellings = analyze_text(text)
    assert len(words.encode()) <= MAX_INDEXED_BYTES
    assert len(spellings.encode()) <= MAX_INDEXED_BYTES
    assert sum(len(token.encode()) for token in exact) <= MAX_INDEXED_BYTES
    assert all(len(word) <= MAX_WORD_CHARACTERS for word in words.split())
    assert all(len(token) <= 3 * MAX_WORD_CHARACTERS for token in exact)
    query = analyze_query(text)
    assert len(set(query.text.split())) <= MAX_QUERY_TERMS
    assert len(query.text.split()) <= MAX_QUERY_OCCURRENCES
    assert len(query.exact) <= MAX_QUERY_TERMS
    assert len(query.spellings.split()) <= MAX_QUERY_TERMS
