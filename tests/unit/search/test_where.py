"""The filter language: what it says, and that keys and values never become part of a path."""

from __future__ import annotations

from typing import Any

import pytest

from livedex.pipeline.search.metadata_filter import (
    MAX_DEPTH,
    All,
    AnyOf,
    Equals,
    Exists,
    Not,
    RangeCondition,
    compile_filter,
    parse_filter,
)


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ({"kind": "contract"}, Equals("kind", ("contract",))),
        ({"kind": None}, Equals("kind", (None,))),
        ({"year": {"gte": 2024}}, RangeCondition("year", ">=", 2024)),
        (
            {"year": {"gt": 1, "lt": 3}},
            All((RangeCondition("year", ">", 1), RangeCondition("year", "<", 3))),
        ),
        ({"tag": {"in": ["a", 1, True]}}, Equals("tag", ("a", 1, True))),
        ({"tag": {"in": []}}, Equals("tag", ())),
        ({"tag": {"exists": False}}, Not(Exists("tag"))),
        ({"tag": {"not": "a"}}, Not(Equals("tag", ("a",)))),
        ({"tag": {"not": {"in": ["a"]}}}, Not(Equals("tag", ("a",)))),
        ({"or": [{"a": 1}, {"b": 2}]}, AnyOf((Equals("a", (1,)), Equals("b", (2,))))),
        ({"and": [{"a": 1}], "c": 3}, All((All((Equals("a", (1,)),)), Equals("c", (3,))))),
        ({"or": "x", "and": 1}, All((Equals("or", ("x",)), Equals("and", (1,))))),
        ({}, All(())),
    ],
    ids=str,
)
def test_a_filter_says_what_is_meant(where: dict[str, Any], condition: object) -> None:
    assert parse_filter(where) == condition


def _nested(levels: int) -> dict[str, Any]:
    return {"and": [_nested(levels - 1)]} if levels else {"a": 1}


@pytest.mark.parametrize(
    "where",
    [
        {"year": {"near": 3}},
        {"year": {}},
        {"year": {"gte": {"a": 1}}},
        {"year": {"gte": [1]}},
        {"year": {"gte": None}},
        {"year": {"lt": True}},
        {"kind": {"in": "contract"}},
        {"kind": {"in": {"a": 1}}},
        {"kind": {"in": [[1]]}},
        {"kind": {"in": ["a"] * 1001}},
        {"kind": ["a"]},
        {"kind": {"exists": 1}},
        {"or": []},
        {"and": [{"a": 1}, 7]},
        {"or": [[]]},
        {"and": {"a": 1}},
        {"": "x"},
        {"k" * 1001: 1},
        {"a\x00": 1},
        {"a": "b\x00"},
        {"a": "\ud800"},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 10**30},
        {"a": "x" * 10_001},
        {7: 1},
        _nested(MAX_DEPTH + 1),
        _nested(200),
        {str(n): 1 for n in range(201)},
        {"or": [{"a": 1, "b": 2}] * 150},
        {"a": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"not": 1}}}}}}}}}},
    ],
    ids=lambda where: str(where)[:50],
)
def test_a_filter_without_sense_is_refused(where: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_filter(where)


def test_a_not_around_a_condition_is_told_where_it_belongs() -> None:
    with pytest.raises(ValueError, match="stands under a key"):
        parse_filter({"not": {"kind": "contract"}})
    assert parse_filter({"not": "yes"}) == Equals("not", ("yes",))


@pytest.mark.parametrize(
    "key",
    [
        "a.b",
        "content-type",
        "$.kind",
        'kind"',
        "kind' = 'x' or true --",
        "{kind}",
        "kind\\",
        "k" * 300,
        "日本",
        "\n",
        "$v0",
        "*",
    ],
)
def test_a_key_stands_in_the_path_as_one_string(key: str) -> None:
    path, values = compile_filter(parse_filter({key: "z') or true --"}))
    assert path.startswith('exists($."') and path.endswith(" ? (@ == $v0[*]))")
    assert path.isascii() and "true" not in path.replace(ascii(key)[1:-1], "")
    assert values == {"v0": ["z') or true --"]}


def test_each_value_has_a_name_of_its_own() -> None:
    path, values = compile_filter(
        parse_filter({"a": True, "b": {"in": ["x", "y"]}, "c": {"not": {"lte": "2.5"}}})
    )
    assert values == {"v0": [True], "v1": ["x", "y"], "v2": "2.5"}
    assert (
        path == '(exists($."a" ? (@ == $v0[*]))) && (exists($."b" ? (@ == $v1[*]))) && '
        '(!(exists($."c" ? (@ <= $v2))))'
    )


def test_numbers_are_compared_with_texts_that_are_numbers() -> None:
    path, values = compile_filter(parse_filter({"a": {"in": [1, "x", True]}, "b": {"gt": 2}}))
    assert values == {"v0": [1, "x", True], "v1": [1], "v2": 2}
    assert path.count("@.double() == $v1[*]") == 1 and path.count("@.double() > $v2") == 1
