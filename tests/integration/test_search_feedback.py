"""The vector leg of a hybrid search looks near what the words found; what is told of a hit stays
its similarity to the query.
"""

from __future__ import annotations

from typing import Any

import pytest

from livedex.pipeline.store.database import Database
from tests.corpus import SearchIndex

KIN = "harbour ledger copper meadow orbit"  # words of one matter


@pytest.fixture
async def library(database: Database) -> SearchIndex:
    made = await SearchIndex.open(database, dimensions=256)
    await made.add("named", f"saffron {KIN}")
    await made.add("kin", KIN)
    for n in range(8):
        await made.add(f"stranger{n}", " ".join(f"velvet{n}{k} anchor{n}{k}" for k in range(3)))
    return made


async def _hits(library: SearchIndex, query: str, **request: Any) -> dict[str, Any]:
    return {hit["document_id"]: hit for hit in await library.search(query, limit=20, **request)}


async def test_what_is_like_the_passage_that_the_words_found_comes_second(
    library: SearchIndex,
) -> None:
    hits = await _hits(library, "saffron", include=["explain"])
    assert (hits["named"]["vector_rank"], hits["kin"]["vector_rank"]) == (1, 2)
    assert hits["kin"]["keyword_rank"] is None and hits["kin"]["explain"]["feedback"]


async def test_scores_are_similarities_to_the_query_all_the_same(library: SearchIndex) -> None:
    alone = await _hits(library, "saffron", mode="vector")
    for name, hit in (await _hits(library, "saffron")).items():
        assert hit["score"] == pytest.approx(alone[name]["score"], abs=1e-6)


async def test_min_score_bounds_the_similarity_to_the_query(library: SearchIndex) -> None:
    bound = (await _hits(library, "saffron", mode="vector"))["named"]["score"] - 0.01
    hits = await _hits(library, "saffron", min_score=bound)
    assert set(hits) == {"named"} and hits["named"]["vector_rank"] == 1


@pytest.mark.parametrize(
    "request_", [{"mode": "vector"}, {"fusion": "weighted"}, {"mode": "keyword"}]
)
async def test_only_ranks_that_are_joined_are_moved(
    library: SearchIndex, request_: dict[str, Any]
) -> None:
    hits = await _hits(library, "saffron", include=["explain"], **request_)
    assert hits and not any(hit["explain"]["feedback"] for hit in hits.values())


async def test_a_vector_that_is_given_stays_where_it_is(library: SearchIndex) -> None:
    vector = (await library.space.embed_query("velvet00 anchor00")).tolist()
    hits = await _hits(library, "saffron", query_vector=vector, include=["explain"])
    assert hits["stranger0"]["vector_rank"] == 1 and not hits["stranger0"]["explain"]["feedback"]


async def test_a_look_up_is_not_moved(library: SearchIndex) -> None:
    await library.add("error", f"ERR_CONN_RESET {KIN}")
    hits = await _hits(library, "ERR_CONN_RESET", include=["explain"])
    assert set(hits) == {"error"} and not hits["error"]["explain"]["feedback"]


async def test_without_words_the_query_is_where_it_was(library: SearchIndex) -> None:
    hits = await _hits(library, "the and of", include=["explain"])
    assert hits and not any(hit["explain"]["feedback"] for hit in hits.values())
