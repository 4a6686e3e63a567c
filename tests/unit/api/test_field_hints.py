"""A field that a body does not have is answered with the one that was probably meant."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("top_k", "top_k: unknown field: did you mean limit?"),
        ("filter", "filter: unknown field: did you mean where?"),
        ("qurey", "qurey: unknown field: did you mean query?"),
        ("colection", "colection: unknown field: did you mean collection?"),
        ("threshold", "threshold: unknown field: did you mean min_score?"),
    ],
)
async def test_the_field_that_was_meant_is_named(http, field, said):
    answer = await http.post("/v1/search", json={"query": "x", field: 3})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(said)


async def test_a_field_that_resembles_none_is_answered_with_all(http):
    answer = await http.post("/v1/search", json={"query": "x", "xyzzy": 3})
    assert (
        "xyzzy: unknown field: it takes after, alpha, candidates, changed_at"
        in answer.json()["detail"]
    )


async def test_a_field_within_a_value_is_told_as_before(http):
    answer = await http.post("/v1/search", json={"query": "x", "limit": {"top_k": 3}})
    assert answer.status_code == 422 and "did you mean" not in answer.text
