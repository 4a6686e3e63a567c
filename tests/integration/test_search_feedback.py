"""Query expansion in a hybrid search; the score of a hit stays its similarity to the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from livedex.pipeline.search.query_expansion import FEEDBACK_SHARE
from livedex.pipeline.store.database import Database
from tests.support.builders.search_corpus import SearchIndex

KIN = "harbour ledger copper meadow orbit"  # words of one topic
STRANGERS = int(1 / FEEDBACK_SHARE)  # so many that one passage is taken for relevant


@pytest.fixture
async def library(database: Database) -> SearchIndex:
    made = await SearchIndex.open(database, dimensions=256)
    await made.add("named", f"saffron {KIN}")
    await made.add("kin", KIN)
    for n in range(STRANGERS):
        await made.add(f"stranger{n}", " ".join(f"velvet{n}{k} anchor{n}{k}" for k in range(3)))
    return made


async def _hits(library: SearchIndex, query: str, **request: Any) -> dict[str, Any]:
    return {hit["document_id"]: hit for hit in await library.search(query, limit=100, **request)}


def _used_feedback(hits: Mapping[str, Any]) -> bool:
    return any(hit["explain"]["feedback"] for hit in hits.values())


async def test_what_shares_words_with_the_best_passage_comes_second(library: SearchIndex) -> None:
    hits = await _hits(library, "saffron", include=["explain"])
    assert list(hits)[:2] == ["named", "kin"]
    assert (hits["named"]["vector_rank"], hits["kin"]["vector_rank"]) == (1, 2)
    assert hits["kin"]["keyword_rank"] == 2 and _used_feedback(hits)
    assert set(KIN.split()) == set(hits["kin"]["explain"]["expansion"])
    assert hits["kin"]["explain"]["words"] == ["saffron"]


async def test_expansion_can_be_turned_off(library: SearchIndex) -> None:
    hits = await _hits(library, "saffron", expand=False, include=["explain"])
    assert hits["kin"]["keyword_rank"] is None and not _used_feedback(hits)
    assert hits["kin"]["explain"]["expansion"] == []


async def test_among_few_passages_nothing_is_expanded(database: Database) -> None:
    library = await SearchIndex.open(database, dimensions=256)
    await library.add("named", f"saffron {KIN}")
    await library.add("kin", KIN)
    hits = await _hits(library, "saffron", include=["explain"])
    assert hits["kin"]["keyword_rank"] is None and not _used_feedback(hits)


async def test_scores_are_similarities_to_the_query(library: SearchIndex) -> None:
    alone = await _hits(library, "saffron", mode="vector")
    for name, hit in (await _hits(library, "saffron")).items():
        assert hit["score"] == pytest.approx(alone[name]["score"], abs=1e-6)


async def test_min_score_bounds_the_similarity_to_the_query(library: SearchIndex) -> None:
    alone = await _hits(library, "saffron", mode="vector")
    bound = alone["named"]["score"] - 0.01
    hits = await _hits(library, "saffron", min_score=bound)
    near = {name for name, hit in hits.items() if hit["vector_rank"]}
    assert near == {name for name, hit in alone.items() if hit["score"] >= bound}


@pytest.mark.parametrize("mode", ["vector", "keyword"])
async def test_only_a_hybrid_search_is_expanded(library: SearchIndex, mode: str) -> None:
    hits = await _hits(library, "saffron", include=["explain"], mode=mode)
    assert hits and not _used_feedback(hits)


async def test_a_query_vector_is_not_moved(library: SearchIndex) -> None:
    vector = (await library.space.embed_query("velvet00 anchor00")).tolist()
    hits = await _hits(library, "saffron", query_vector=vector, include=["explain"])
    assert hits["stranger0"]["vector_rank"] == 1 and not _used_feedback(hits)


async def test_a_lookup_is_not_expanded(library: SearchIndex) -> None:
    await library.add("error", f"ERR_CONN_RESET {KIN}")
    hits = await _hits(library, "ERR_CONN_RESET", include=["explain"])
    assert set(hits) == {"error"} and not _used_feedback(hits)


async def test_a_query_of_stop_words_is_not_expanded(library: SearchIndex) -> None:
    hits = await _hits(library, "the and of", include=["explain"])
    assert hits and not _used_feedback(hits)


async def test_a_word_counts_as_often_as_the_query_repeats_it(database: Database) -> None:
    library = await SearchIndex.open(database, dimensions=256)
    await library.add("needle", "needle thread cotton linen")
    await library.add("haystack", "haystack barn cattle straw")
    for repeated, other in (("needle", "haystack"), ("haystack", "needle")):
        found = await library.search(f"{repeated} {repeated} {other}", mode="keyword")
        assert [hit["document_id"] for hit in found] == [repeated, other]
