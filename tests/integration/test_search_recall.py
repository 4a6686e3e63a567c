"""The recall of the vector index: measured against the exact scan, and held at its target."""

from __future__ import annotations

from typing import Any

import asyncpg
import numpy as np
import pytest

from livedex.pipeline.model import GenerationId
from livedex.pipeline.search import recall_monitor
from livedex.pipeline.search import vector_retriever as vectors
from livedex.pipeline.search.recall_monitor import (
    RecallMeasurement,
    learned_ef_search,
    maintain_recall,
    measure_recall,
    sample_queries,
)
from livedex.pipeline.search.word_statistics import refresh_word_statistics
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.vector_index import (
    enlarge_vector_index,
    index_name,
    maintain_vector_index,
)
from tests.support.builders.search_corpus import TENANT, SearchIndex

SIZE = 400


@pytest.fixture
async def index(database: Database, owner_url: str) -> SearchIndex:
    opened = await SearchIndex.open(database, exact_passages=SIZE // 2)
    words = [f"word{n}" for n in range(60)]
    rng = np.random.default_rng(3)
    for n in range(SIZE):
        await opened.add(f"d{n}", " ".join(rng.choice(words, 8)))
    await refresh_word_statistics(database, TENANT)
    assert await maintain_vector_index(owner_url, generation_of(opened), 1)
    return opened


def generation_of(index: SearchIndex) -> GenerationId:
    assert index.space.generation_id is not None
    return index.space.generation_id


async def test_it_is_measured_once_kept_and_used_by_searches(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = generation_of(index)
    measured: list[int] = []
    real = recall_monitor.measure_recall

    async def counted(*args: Any) -> RecallMeasurement:
        measured.append(1)
        return await real(*args)

    monkeypatch.setattr(recall_monitor, "measure_recall", counted)
    found = await maintain_recall(index.database, TENANT, generation, SIZE // 2)
    assert found is not None and found.reaches_target and found.ef_search == 200
    assert await maintain_recall(index.database, TENANT, generation, SIZE // 2) == found
    assert measured == [1]
    assert await maintain_recall(index.database, TENANT, generation, SIZE) is None
    async with index.database.tenant(TENANT) as connection:
        await connection.execute("update vector_recall set ef_search = 333")
        assert await learned_ef_search(connection, TENANT, generation) == 333
    asked: list[int | None] = []
    real_scan = vectors._indexed

    async def noted(*args: Any) -> Any:
        asked.append(args[2].ef_search)
        return await real_scan(*args)

    monkeypatch.setattr(vectors, "_indexed", noted)
    await index.search("word1 word2", mode="vector")
    await index.search("word1 word2", mode="vector", ef_search=50)
    assert asked == [333, 50]


async def test_growth_another_index_and_age_are_reasons_to_measure_again(
    index: SearchIndex, owner: asyncpg.Connection, owner_url: str
) -> None:
    generation = generation_of(index)
    for change in (
        "update vector_recall set passages = 100",
        "update vector_recall set index_oid = 0",
        "update vector_recall set measured_at = now() - interval '2 days'",
    ):
        await maintain_recall(index.database, TENANT, generation, SIZE // 2)
        await owner.execute(f"update vector_recall set recall = 0.5; {change}")
        found = await maintain_recall(index.database, TENANT, generation, SIZE // 2)
        assert found is not None and found.recall > 0.9, change


async def test_ef_search_rises_until_the_target_is_reached(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    async def nearest(connection: Any, statement: str, *rest: Any) -> list[float]:
        if statement == "nearest_exactly":
            return [0.5] * 10
        ef_search = int(await connection.fetchval("show hnsw.ef_search"))
        tried.append(ef_search)
        return [0.5] * (ef_search // 100) + [0.6] * (10 - ef_search // 100)

    monkeypatch.setattr(recall_monitor, "_nearest", nearest)
    found = await measure_recall(index.database, TENANT, generation_of(index))
    assert sorted(set(tried)) == [200, 400, 800]
    assert found.ef_search == 800 and found.recall == pytest.approx(0.8)
    assert found.needs_larger_index


async def test_a_larger_index_takes_the_place_of_the_one_that_answers(
    index: SearchIndex, owner: asyncpg.Connection, owner_url: str
) -> None:
    generation = generation_of(index)
    before = await index.found("word1 word2 word3", mode="vector", limit=10)
    assert await enlarge_vector_index(owner_url, generation)
    assert not await enlarge_vector_index(owner_url, generation)
    names = await owner.fetch(
        "select c.relname, c.reloptions from pg_index i join pg_class c on c.oid = i.indexrelid "
        "where i.indisvalid and c.relname like '%by_nearness%'"
    )
    assert [(row["relname"], row["reloptions"]) for row in names] == [
        (index_name(generation), ["m=32", "ef_construction=128"])
    ]
    assert not await maintain_vector_index(owner_url, generation, 1)
    assert set(await index.found("word1 word2 word3", mode="vector", limit=10)) == set(before)
    found = await measure_recall(index.database, TENANT, generation)
    assert found.reaches_target


def test_queries_are_stored_vectors_and_means_between_them() -> None:
    rng = np.random.default_rng(1)
    stored = [v / np.linalg.norm(v) for v in rng.normal(size=(5, 8)).astype(np.float32)]
    queries = [query.to_numpy().astype(np.float32) for query in sample_queries(stored)]
    assert len(queries) == 5
    assert all(abs(np.linalg.norm(query) - 1) < 1e-2 for query in queries)
    assert np.allclose(queries[1], stored[2], atol=1e-2)
    assert sample_queries([]) == []
    assert len(sample_queries([stored[0], -stored[0]])) == 1
