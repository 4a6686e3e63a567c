"""The request: strict in every field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from livedex.pipeline.search.request import MAX_QUERY_CHARACTERS, SearchRequest

NAN, INF = float("nan"), float("inf")

WITHOUT_SENSE: list[dict[str, Any]] = [
    {},
    {"query": ""},
    {"query": " \n\t "},
    {"query": None},
    {"query": 7},
    {"query": ["a"]},
    {"query": {"text": "a"}},
    {"query": True},
    {"query": "\x00\x01"},
    {"query": "\u200b\ufeff"},
    {"query": "\ud800"},
    {"query": "x" * (MAX_QUERY_CHARACTERS + 1)},
    *(
        {"query": "a", "limit": v}
        for v in (0, -1, 1001, 10**12, 1.5, 8.0, "8", "many", [8], {}, NAN, INF, True, None)
    ),
    *({"query": "a", "mode": v} for v in ("both", "", 1, ["hybrid"], None, "HYBRID")),
    *({"query": "a", "min_score": v} for v in (-0.1, 1.1, "high", "0.5", NAN, [0.5], True)),
    *({"query": "a", "candidates": v} for v in (0, 10_001, "all", True, 1.5)),
    *({"query": "a", "ef_search": v} for v in (0, 1001, False)),
    *({"query": "a", "alpha": v} for v in (-1, 2, NAN, "0.5", True)),
    *({"query": "a", "fusion": v} for v in ("sum", 1)),
    *({"query": "a", "rrf_k": v} for v in (0, -60, 1.5, True)),
    *({"query": "a", "include": v} for v in (["everything"], {"content": True}, [1], "content")),
    *(
        {"query": "a", "where": v}
        for v in ("kind = 1", ["kind"], 7, {"year": {"near": 3}}, {"kind": {"in": "contract"}})
    ),
    *(
        {"query": "a", "document_ids": v}
        for v in (7, [7], {"id": 1}, [None], ["a\x00"], ["x"] * 1001)
    ),
    *({"query": "a", "collection": v} for v in (7, {"name": "x"}, "a\x00")),
    *(
        {"query_vector": v}
        for v in (
            [],
            "vector",
            [NAN],
            [INF, 1.0],
            [None],
            ["0.1x"],
            ["0.1"],
            [[0.1]],
            [True],
            [0.0, 0.0],
            [0.1] * 4001,
        )
    ),
    {"query_vector": [1.0], "mode": "keyword"},
    {"query": "a", "wait_s": 31},
    {"query": "a", "wait_s": -1},
    {"query": "a", "after": 7},
    {"query": "a", "limits": 5},
    {"query": "a", "tenant_id": "other"},
    {"query": "a", "wher": {"kind": "x"}},
]


@pytest.mark.parametrize("body", WITHOUT_SENSE, ids=lambda body: ascii(body)[:60])
def test_a_request_without_sense_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SearchRequest.model_validate(body)


def test_rrf_k_chooses_reciprocal_ranks() -> None:
    assert SearchRequest(query="a", rrf_k=60).fusion_method == "rrf"
    assert SearchRequest(query="a", rrf_k=60, fusion="weighted").fusion_method == "weighted"
    assert SearchRequest(query="a", fusion="weighted").vector_weight == 0.5
    assert SearchRequest(query="a", alpha=0.9).vector_weight == 0.9


def test_the_defaults_are_those_of_the_interface() -> None:
    request = SearchRequest.model_validate({"query": "a"})
    assert (
        request.limit,
        request.mode,
        request.candidates,
        request.fusion_method,
        request.vector_weight,
        request.expand,
    ) == (
        8,
        "hybrid",
        100,
        "min_max",
        0.3,
        True,
    )
    assert (request.include, request.after, request.wait_s, request.min_score) == (
        ["content", "metadata"],
        None,
        5,
        None,
    )


def test_one_name_is_a_list_of_one() -> None:
    request = SearchRequest.model_validate(
        {"query": "a", "collection": "x", "document_ids": ["y", "z"]}
    )
    assert (request.collection, request.document_ids) == (["x"], ["y", "z"])


@pytest.mark.parametrize(
    ("query", "cleaned"),
    [
        ("a\x00b", "a b"),
        ("a\udc00b", "a b"),
        ("a\nb", "a b"),
        ("\x1b[31mred", " [31mred"),
        ("🦊", "🦊"),
    ],
)
def test_control_characters_in_a_query_part_words(query: str, cleaned: str) -> None:
    assert SearchRequest.model_validate({"query": query}).query == cleaned


@pytest.mark.parametrize(
    "body",
    [
        {"query": "a", "min_score": 0},
        {"query": "a", "alpha": 1},
        {"query_vector": [1, 0.5]},
        {"query": "a", "where": {}},
    ],
)
def test_whole_numbers_stand_for_shares_too(body: dict[str, Any]) -> None:
    assert SearchRequest.model_validate(body)
