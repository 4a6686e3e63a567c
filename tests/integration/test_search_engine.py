"""The answer as a whole: fields, order, fusion, scores, what happens without an embedder."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime
from typing import Any

import orjson
import pytest

from livedex.pipeline.errors import OutageError, RejectedError, RetryableError, TooLargeError
from livedex.pipeline.model import Reader, TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search import vector_retriever as vector
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.active_generation import ActiveGeneration
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.documents.vector_index import maintain_vector_index
from tests.support.builders.search_corpus import TENANT, FakeVectorSpace, SearchIndex, hit_positions

TEXTS = {
    "espresso": [
        "Fill the tank with soft water only.",
        "Descale the boiler of the machine with citric acid.",
        "Never pour vinegar into the machine.",
    ],
    "printer": [
        "The printer of the office lies beside the machine.",
        "Its toner lies in the cupboard.",
    ],
    "cleaning": ["The office is vacuumed twice a week.", "The agreement renews itself."],
    "tea": ["Tea is brewed without any machine, with water."],
}
FIELDS = {
    "document_id",
    "chunk_index",
    "content",
    "score",
    "fused_score",
    "vector_rank",
    "keyword_rank",
    "heading",
    "start",
    "end",
    "title",
    "uri",
    "collection",
    "metadata",
    "version",
    "synced_at",
}
QUERY = "water for the machine of the office"


@pytest.fixture
async def library(database: Database) -> SearchIndex:
    made = await SearchIndex.open(database, metrics=Metrics())
    for name, chunks in TEXTS.items():
        await made.add(name, chunks, heading=("Handbook", name), kind=name)
    return made


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
async def test_a_hit_has_every_field_and_its_place_in_the_text(
    library: SearchIndex, mode: str
) -> None:
    answer = await library.ask(QUERY, mode=mode, limit=50)
    assert answer.degraded == [] and answer.took_ms > 0 and answer.hits
    for hit in answer.hits:
        chunks = TEXTS[hit["document_id"]]
        start = sum(len(chunk) + 2 for chunk in chunks[: hit["chunk_index"]])
        assert set(hit) == FIELDS
        assert hit["content"] == chunks[hit["chunk_index"]]
        assert (hit["start"], hit["end"]) == (start, start + len(hit["content"]))
        assert (hit["heading"], hit["title"], hit["metadata"]) == (
            ["Handbook", hit["document_id"]],
            hit["document_id"],
            {"kind": hit["document_id"]},
        )
        assert (
            isinstance(hit["synced_at"], datetime)
            and hit["collection"] == "default"
            and hit["uri"] is None
        )
    assert (
        orjson.loads(orjson.dumps(answer))["hits"][0]["document_id"]
        == answer.hits[0]["document_id"]
    )


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize("fusion", ["min_max", "rrf", "weighted"])
async def test_hits_are_ordered_by_the_fused_score_each_once_with_ranks_from_one(
    library: SearchIndex, mode: str, fusion: str
) -> None:
    hits = await library.search(QUERY, mode=mode, fusion=fusion, limit=50)
    assert [hit["fused_score"] for hit in hits] == sorted(
        (hit["fused_score"] for hit in hits), reverse=True
    )
    assert len(set(hit_positions(hits))) == len(hits)
    assert all(0 <= hit["score"] <= 1 for hit in hits)
    for leg in ("vector", "keyword"):
        ranked = sorted(
            (hit for hit in hits if hit[f"{leg}_rank"]), key=lambda hit: hit[f"{leg}_rank"]
        )
        assert [hit[f"{leg}_rank"] for hit in ranked] == list(range(1, len(ranked) + 1))
        # there it also looks near what the words found
        if leg == "vector" and (mode, fusion) != ("hybrid", "rrf"):
            assert [hit["score"] for hit in ranked] == sorted(
                (hit["score"] for hit in ranked), reverse=True
            )
        if mode == leg:
            assert ranked == hits
        elif mode != "hybrid":
            assert ranked == []


@pytest.mark.parametrize("rrf_k", [1, 60, 200])
async def test_reciprocal_ranks_are_summed(library: SearchIndex, rrf_k: int) -> None:
    for hit in await library.search(QUERY, rrf_k=rrf_k, limit=50):
        expected = sum(
            1 / (rrf_k + hit[f"{leg}_rank"]) for leg in ("vector", "keyword") if hit[f"{leg}_rank"]
        )
        assert hit["fused_score"] == pytest.approx(expected)


async def test_weights_lead_from_one_leg_to_the_other(library: SearchIndex) -> None:
    vectors = hit_positions(await library.search(QUERY, mode="vector", limit=3))
    keywords = hit_positions(await library.search(QUERY, mode="keyword", limit=3))
    assert (
        hit_positions(await library.search(QUERY, fusion="weighted", alpha=1, limit=3)) == vectors
    )
    assert (
        hit_positions(await library.search(QUERY, fusion="weighted", alpha=0.0, limit=3))
        == keywords
    )
    for alpha in (0.0, 1):
        for mode, expected in (("vector", vectors), ("keyword", keywords)):
            assert (
                hit_positions(
                    await library.search(QUERY, fusion="weighted", alpha=alpha, limit=3, mode=mode)
                )
                == expected
            )


async def test_the_score_is_the_cosine_similarity_in_every_mode(library: SearchIndex) -> None:
    query = library.space.embedder.vector(QUERY)
    for mode in ("hybrid", "vector", "keyword"):
        for hit in await library.search(QUERY, mode=mode, limit=50):
            expected = float(query @ library.space.embedder.vector(hit["content"]))
            assert hit["score"] == pytest.approx(max(0.0, expected), abs=2e-3)


async def test_min_score_bounds_the_vector_leg_alone(library: SearchIndex) -> None:
    everything = await library.search(QUERY, mode="vector", limit=50)
    bound = (everything[1]["score"] + everything[2]["score"]) / 2
    assert hit_positions(
        await library.search(QUERY, mode="vector", limit=50, min_score=bound)
    ) == hit_positions(everything[:2])
    assert await library.search("nothing like it", mode="vector", min_score=1.0) == []
    assert len(await library.search(QUERY, mode="vector", limit=50, min_score=0)) == len(everything)
    for hit in await library.search(QUERY, limit=50, min_score=bound):
        assert (hit["vector_rank"] is not None) == (hit["score"] >= bound)
        assert hit["vector_rank"] or hit["keyword_rank"]


async def test_limit_bounds_the_hits_and_fewer_are_the_first_of_more(library: SearchIndex) -> None:
    count = sum(map(len, TEXTS.values()))
    assert len(await library.search(QUERY, mode="vector", limit=1000, candidates=1)) == count
    twelve = hit_positions(await library.search(QUERY, limit=12))
    for limit in (1, 3, 8):
        assert hit_positions(await library.search(QUERY, limit=limit)) == twelve[:limit]
    assert hit_positions(await library.search(QUERY)) == twelve[:8]


async def test_a_vector_is_a_query_too_of_any_length(library: SearchIndex) -> None:
    query = [float(x) for x in library.space.embedder.vector(QUERY)]
    expected = hit_positions(await library.search(QUERY, mode="vector"))
    asked = len(library.space.embedder.queries)
    for factor in (1.0, 1e-9, 1e12):
        assert (
            hit_positions(
                await library.search(query_vector=[factor * x for x in query], mode="vector")
            )
            == expected
        )
        assert (
            hit_positions(await library.search(query_vector=[factor * x for x in query]))
            == expected
        )
    assert len(library.space.embedder.queries) == asked
    hits = await library.search("vinegar", query_vector=query, limit=50)
    assert hit_positions(
        hits[:1] if hits[0]["keyword_rank"] else [h for h in hits if h["keyword_rank"]]
    ) == [("espresso", 2)]


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
async def test_a_vector_of_other_dimensions_is_refused(library: SearchIndex, mode: str) -> None:
    with pytest.raises(RejectedError, match="63 dimensions, the index has 64"):
        await library.ask("water", query_vector=[1.0] * 63, mode=mode)


async def test_include_chooses_the_fields(library: SearchIndex) -> None:
    async def fields(*include: str) -> dict[str, Any]:
        return dict((await library.search("vinegar", include=list(include)))[0])

    assert set(await fields()) == FIELDS - {"content", "metadata"}
    assert set(await fields("content")) == FIELDS - {"metadata"}
    embedded = await fields("embedding")
    assert embedded["embedding"] == pytest.approx(
        list(library.space.embedder.vector(TEXTS["espresso"][2])), abs=1e-3
    )
    explained = (await fields("explain"))["explain"]
    assert (
        explained["words"] == ["vinegar"]
        and explained["bm25"] > 0
        and explained["fusion"] == {"kind": "min_max", "alpha": 0.3}
    )
    assert orjson.dumps(await library.ask("vinegar", include=["embedding", "explain"]))


@pytest.mark.parametrize(
    "failure", [OutageError("embedder", "away"), RetryableError("again"), TooLargeError("too long")]
)
async def test_without_the_embedder_keywords_answer_and_say_so(
    library: SearchIndex, failure: Exception
) -> None:
    library.space.failure = failure  # type: ignore[assignment]  # any of Livedex's errors
    answer = await library.ask("citric acid")
    assert answer.degraded == ["vector"]
    assert hit_positions(answer.hits) == [("espresso", 1)]
    assert answer.hits[0]["score"] is None and answer.hits[0]["vector_rank"] is None
    keyword = await library.ask("citric acid", mode="keyword", include=["embedding"])
    assert keyword.degraded == [] and keyword.hits[0]["score"] is None
    with pytest.raises(type(failure)):
        await library.ask("citric acid", mode="vector")


async def test_before_the_embedder_ever_answered_keywords_answer_and_say_so(
    database: Database,
) -> None:
    library = SearchIndex(database, FakeVectorSpace(None, None))
    await library.add("tea", TEXTS["tea"])
    answer = await library.ask("brewed tea")
    assert answer.degraded == ["vector"] and hit_positions(answer.hits) == [("tea", 0)]
    for body in ({"query": "tea", "mode": "vector"}, {"query_vector": [1.0, 2.0]}):
        with pytest.raises(OutageError):
            await library.ask(**body)


async def test_vectors_that_another_process_was_the_first_to_store_are_found(
    database: Database,
) -> None:
    async def never() -> int:
        raise AssertionError("a search asks the store, not the model")

    generation = ActiveGeneration(database, PgVectorStore(database), "counting", None, never)
    await generation.load()
    engine = SearchEngine(database, FakeVectorSpace(None, None), generation)
    library = await SearchIndex.open(database)
    await library.add("tea", TEXTS["tea"])
    answer = await engine.search(Reader(TENANT), SearchRequest(query="brewed tea"))
    assert answer.degraded == [] and answer.hits[0]["vector_rank"] == 1


async def test_a_model_that_answers_with_other_dimensions_counts_as_away(
    library: SearchIndex,
) -> None:
    library.space.embedder = type(library.space.embedder)(32)
    assert (await library.ask("citric acid")).degraded == ["vector"]


async def test_an_index_without_anything_answers_with_nothing(database: Database) -> None:
    library = await SearchIndex.open(database)
    for mode in ("hybrid", "vector", "keyword"):
        assert await library.search(QUERY, mode=mode) == []


@pytest.mark.parametrize(
    "body", [{}, {"mode": "vector"}, {"mode": "keyword"}, {"fusion": "weighted"}], ids=str
)
async def test_the_same_query_has_the_same_order_also_for_many_at_once(
    library: SearchIndex, body: dict[str, Any]
) -> None:
    first = hit_positions(await library.search(QUERY, limit=50, **body))
    others = await asyncio.gather(*(library.search(QUERY, limit=50, **body) for _ in range(20)))
    assert all(hit_positions(hits) == first for hits in others)


async def test_a_search_while_documents_change_sees_whole_documents(library: SearchIndex) -> None:
    versions = [[f"water version{n} piece{k}" for k in range(6)] for n in range(2)]
    await library.add("changing", versions[0])

    async def change() -> None:
        for n in range(12):
            await library.add("changing", versions[n % 2])

    async def look() -> None:
        for _ in range(25):
            hits = await library.search("water", document_ids=["changing"], limit=50)
            assert sorted(hit["content"] for hit in hits) in [
                sorted(version) for version in versions
            ]
            assert sorted(hit["chunk_index"] for hit in hits) == list(range(6))

    await asyncio.gather(change(), look(), look())


async def test_every_search_is_measured_by_its_mode(library: SearchIndex) -> None:
    metrics = library.engine._metrics
    assert metrics is not None
    for mode in ("hybrid", "keyword", "keyword"):
        await library.search("water", mode=mode)
    counts = {
        mode: metrics.registry.get_sample_value("livedex_search_seconds_count", {"mode": mode})
        for mode in ("hybrid", "keyword", "vector")
    }
    assert counts == {"hybrid": 1.0, "keyword": 2.0, "vector": None}


async def test_tenants_see_their_own_in_every_mode_and_field(library: SearchIndex) -> None:
    other = TenantId("other")
    await library.add("espresso", "water of the other tenant", tenant=other, kind="espresso")
    for mode in ("hybrid", "vector", "keyword"):
        hits = await library.search(
            "water", mode=mode, tenant=other, limit=1000, include=["content", "embedding"]
        )
        assert [hit["content"] for hit in hits] == ["water of the other tenant"]
        assert all(
            "other tenant" not in hit["content"]
            for hit in await library.search("water", mode=mode, limit=1000)
        )
    assert await library.search("water", tenant=TenantId("nobody")) == []
    assert await library.search("water", tenant=TenantId("' or true --")) == []


async def test_only_a_large_tenant_is_answered_by_the_index_and_the_same(
    database: Database, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_index: list[int] = []
    real = vector._indexed

    async def noted(*args: Any) -> list[Any]:
        by_index.append(1)
        return await real(*args)

    monkeypatch.setattr(vector, "_indexed", noted)
    library = await SearchIndex.open(database, exact_passages=60)
    for n in range(60):
        await library.add(f"d{n}", f"water number{n} and machine{n % 7}")
    expected = await library.found("water and machine3", mode="vector", limit=20)
    generation = library.space.generation_id
    assert generation is not None
    assert await maintain_vector_index(owner_url, generation, 1)
    assert await library.found("water and machine3", mode="vector", limit=20) == expected
    assert not by_index
    await library.add("one more", "milk")
    found = await library.found("water and machine3", mode="vector", limit=20)
    assert by_index
    assert len(found) == 20
    assert set(found[:8]) == set(expected[:8])


async def test_a_generation_without_vectors_for_a_document_leaves_its_score_null(
    library: SearchIndex,
) -> None:
    newer = await PgVectorStore(library.database).ensure_generation("newer", 64)
    library.space.generation_id = newer
    hits = await library.search("citric acid", include=["embedding"])
    assert (
        hit_positions(hits) == [("espresso", 1)]
        and hits[0]["score"] is None
        and "embedding" not in hits[0]
    )
    assert all(math.isfinite(hit["fused_score"]) for hit in hits)
