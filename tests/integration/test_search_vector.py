"""The vector leg on a real index: exact while small, by HNSW when large, and never fewer than
there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import numpy as np
import pytest
from pgvector.asyncpg import register_vector

from livedex.pipeline.model import GenerationId, TenantId
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.vector_retriever import VectorQuery, retrieve_nearest, unit_vector
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.vector_index import (
    index_name,
    maintain_vector_index,
    vector_index_is_valid,
)
from livedex.pipeline.store.postgres.statements import sql
from tests.support.builders.search_corpus import TENANT, SearchIndex, hit_positions

BIG, SMALL = TenantId("big"), TenantId("small")
DIMENSIONS = 8
QUERY = [1.0] + [0.0] * (DIMENSIONS - 1)


class Vectors:
    """Vectors put there directly: one passage in one document each.

    Attributes:
        settings: of every transaction of a search, beside the program's own.
    """

    def __init__(
        self, owner: asyncpg.Connection, database: Database, generation: GenerationId
    ) -> None:
        self.owner = owner
        self.database = database
        self.generation = generation
        self.settings: dict[str, str] = {}

    async def add(
        self, tenant: TenantId, matrix: np.ndarray, collection: str = "default"
    ) -> list[int]:
        """The passages of the rows, in their order."""
        rows = await self.owner.fetch(
            """with new as (
                   insert into passages (tenant_id, hash, content, length, tsv)
                   select $1, sha256(($1 || $2 || n || random())::bytea), n::text, 1, ''
                     from generate_series(1, $3::int) n returning passage_id
               ), shown as (
                   insert into documents (tenant_id, document_id, state, version, chunk_count,
                     collection)
                   select $1, 'd' || passage_id, 'synced', 1, 1, $2 from new returning doc_id,
                     document_id
               ), placed as (
                   insert into chunks (tenant_id, doc_id, position, passage_id, gap, length)
                   select $1, s.doc_id, 0, n.passage_id, 0, 1 from shown s join new n
                     on s.document_id = 'd' || n.passage_id
               )
               select passage_id from new order by passage_id""",
            tenant,
            collection,
            len(matrix),
        )
        ids = [row["passage_id"] for row in rows]
        await self.owner.copy_records_to_table(
            f"vectors_{self.generation}",
            columns=["tenant_id", "passage_id", "embedding"],
            records=[
                (tenant, passage, unit_vector(vector))
                for passage, vector in zip(ids, matrix, strict=True)
            ],
        )
        return ids

    async def nearest(
        self,
        tenant: TenantId,
        wanted: int,
        *,
        indexed: bool,
        selection: DocumentFilter | None = None,
        ef_search: int | None = None,
        query: Sequence[float] = QUERY,
    ) -> list[int]:
        """What the leg finds, best first."""
        async with self.database.tenant(tenant, snapshot=True) as connection:
            for name, value in self.settings.items():
                await connection.fetchval("select set_config($1, $2, true)", name, value)
            passages = (
                await connection.fetchval(
                    "select count(*) from passages where tenant_id = $1", tenant
                )
                if indexed
                else 0
            )
            space = VectorQuery(self.generation, unit_vector(query), passages, ef_search)
            return list(
                await retrieve_nearest(
                    connection, tenant, space, selection or DocumentFilter(), wanted
                )
            )


@pytest.fixture
async def vectors(owner: asyncpg.Connection, database: Database) -> Vectors:
    await register_vector(owner)
    return Vectors(
        owner,
        database,
        GenerationId(await owner.fetchval("select ensure_generation('test', $1)", DIMENSIONS)),
    )


def near(count: int, distance: float, seed: int = 1) -> np.ndarray:
    """Vectors about so far from the query."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(count, DIMENSIONS))
    noise[:, 0] = 0
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return np.asarray(QUERY) + (distance * (1 + rng.uniform(0, 0.1, size=(count, 1)))) * noise


async def build_index(vectors: Vectors, owner_url: str) -> None:
    assert await maintain_vector_index(owner_url, vectors.generation, 1)


SHARES = {"half": 25_000, "hundredth": 500, "thousandth": 50, "rest": 24_450}
"""Collections of a tenant of 50,000 passages."""
FORCED = [
    {"enable_seqscan": "off", "enable_sort": "off", "enable_bitmapscan": "off"},
    {"enable_indexscan": "off"},
    {},
]


async def test_a_small_tenant_and_small_collections_have_all_their_hits_beside_50000_nearer_rows(
    vectors: Vectors, owner_url: str
) -> None:
    for collection, count in SHARES.items():
        await vectors.add(BIG, near(count, 0.6, seed=count), collection)
    mine = await vectors.add(SMALL, near(50, 3.0))
    await build_index(vectors, owner_url)
    await vectors.owner.execute("analyze")
    exact = await vectors.nearest(SMALL, 10, indexed=False)
    assert len(exact) >= 10
    assert set(exact) <= set(mine)
    for vectors.settings in FORCED:
        for indexed in (False, True):
            assert (await vectors.nearest(SMALL, 10, indexed=indexed))[:10] == exact[:10]
    for vectors.settings in FORCED:
        for collection in SHARES:
            assert await recall(vectors, DocumentFilter([collection])) >= 0.95, (
                collection,
                vectors.settings,
            )


async def recall(vectors: Vectors, selection: DocumentFilter) -> float:
    """The share of the ten nearest that the index finds too, of the large tenant, in the mean of
    some queries.
    """
    shares = []
    for query in near(10, 0.6, seed=0):
        exact = (await vectors.nearest(BIG, 10, indexed=False, selection=selection, query=query))[
            :10
        ]
        found = (await vectors.nearest(BIG, 10, indexed=True, selection=selection, query=query))[
            :10
        ]
        assert len(exact) == len(found) == 10
        shares.append(len({*exact} & {*found}) / 10)
    return sum(shares) / len(shares)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("wanted", [50, 100, 200, 1000])
async def test_as_many_come_as_are_asked_for_and_there(
    vectors: Vectors, owner_url: str, wanted: int, indexed: bool
) -> None:
    await vectors.add(TENANT, near(475, 0.5))
    few = await vectors.add(TENANT, near(25, 2.0, seed=2), "few")
    await build_index(vectors, owner_url)
    vectors.settings = FORCED[0]
    everything = await vectors.nearest(TENANT, wanted, indexed=indexed, ef_search=1)
    assert len(everything[:wanted]) == min(wanted, 500)
    filtered = await vectors.nearest(
        TENANT, wanted, indexed=indexed, ef_search=1, selection=DocumentFilter(["few"])
    )
    assert sorted(filtered) == sorted(few)


@pytest.mark.parametrize("indexed", [True, False])
async def test_deleted_rows_that_were_nearer_take_no_place_before_any_vacuum(
    vectors: Vectors, owner_url: str, indexed: bool
) -> None:
    await vectors.owner.execute(
        f"alter table vectors_{vectors.generation} set (autovacuum_enabled = off)"
    )
    gone = await vectors.add(TENANT, near(5_000, 0.05))
    left = await vectors.add(TENANT, near(20, 1.0))
    await build_index(vectors, owner_url)
    await vectors.owner.execute(
        f"delete from vectors_{vectors.generation} where passage_id = any($1)", gone
    )
    vectors.settings = FORCED[0]
    assert set(await vectors.nearest(TENANT, 10, indexed=indexed)) <= set(left)
    assert len((await vectors.nearest(TENANT, 10, indexed=indexed))[:10]) == 10


@pytest.mark.parametrize("indexed", [True, False])
async def test_passages_that_no_document_shows_take_no_place(
    vectors: Vectors, owner_url: str, indexed: bool
) -> None:
    hidden = await vectors.add(TENANT, near(500, 0.05))
    left = await vectors.add(TENANT, near(20, 1.0))
    await build_index(vectors, owner_url)
    await vectors.owner.execute("delete from chunks where passage_id = any($1)", hidden)
    assert sorted(await vectors.nearest(TENANT, 20, indexed=indexed)) == sorted(left)


async def test_the_index_finds_nearly_what_the_scan_finds(vectors: Vectors, owner_url: str) -> None:
    await vectors.add(TENANT, np.random.default_rng(4).normal(size=(3_000, DIMENSIONS)))
    await build_index(vectors, owner_url)
    exact = await vectors.nearest(TENANT, 50, indexed=False)
    found = await vectors.nearest(TENANT, 50, indexed=True, ef_search=400)
    assert len({*exact[:50]} & {*found[:50]}) >= 48


async def _plan(vectors: Vectors, name: str, *more: Any) -> str:
    async with vectors.database.tenant(TENANT, snapshot=True) as connection:
        for setting, value in vectors.settings.items():
            await connection.fetchval("select set_config($1, $2, true)", setting, value)
        rows = await connection.fetch(
            f"explain {sql(name, vectors.generation)}", TENANT, unit_vector(QUERY), 10, *more
        )
    return "\n".join(row[0] for row in rows)


async def test_the_exact_scan_uses_no_vector_index_and_the_other_one_does(
    vectors: Vectors, owner_url: str
) -> None:
    await vectors.add(TENANT, near(2_000, 1.0))
    await build_index(vectors, owner_url)
    await vectors.owner.execute("analyze")
    vectors.settings = {"enable_seqscan": "off"}
    assert index_name(vectors.generation) not in await _plan(vectors, "nearest_passages")
    vectors.settings = {}
    assert index_name(vectors.generation) in await _plan(
        vectors, "nearest_indexed", *DocumentFilter().arguments
    )


async def test_settings_of_a_search_do_not_outlive_its_transaction(
    vectors: Vectors, owner_url: str
) -> None:
    await vectors.add(TENANT, near(50, 1.0))
    await build_index(vectors, owner_url)
    await vectors.nearest(TENANT, 10, indexed=True, ef_search=777)
    for _ in range(8):
        async with vectors.database.system() as connection:
            assert await connection.fetchval("show hnsw.ef_search") != "777"


async def test_the_index_is_built_once_there_is_enough_and_only_once(
    vectors: Vectors, owner_url: str
) -> None:
    await vectors.add(TENANT, near(10, 1.0))
    assert not await maintain_vector_index(owner_url, vectors.generation, 11)
    assert not await vector_index_is_valid(vectors.owner, vectors.generation)
    assert await maintain_vector_index(owner_url, vectors.generation, 10)
    assert await vector_index_is_valid(vectors.owner, vectors.generation)
    assert not await maintain_vector_index(owner_url, vectors.generation, 10)


async def test_an_index_that_a_broken_build_left_is_built_anew(
    vectors: Vectors, owner_url: str
) -> None:
    await vectors.add(TENANT, near(50, 1.0))
    await build_index(vectors, owner_url)
    await vectors.owner.execute(
        "update pg_index set indisvalid = false where indexrelid = $1::regclass",
        index_name(vectors.generation),
    )
    assert not await vector_index_is_valid(vectors.owner, vectors.generation)
    assert await maintain_vector_index(owner_url, vectors.generation, 1)
    assert await vector_index_is_valid(vectors.owner, vectors.generation)


async def test_a_second_builder_leaves_it_to_the_first(vectors: Vectors, owner_url: str) -> None:
    await vectors.add(TENANT, near(50, 1.0))
    await vectors.owner.fetchval("select pg_advisory_lock(7205759403792795)")
    assert not await maintain_vector_index(owner_url, vectors.generation, 1)
    await vectors.owner.fetchval("select pg_advisory_unlock(7205759403792795)")
    assert await maintain_vector_index(owner_url, vectors.generation, 1)


async def test_equal_similarities_are_ordered_by_document_whatever_is_asked_for(
    database: Database,
) -> None:
    library = await SearchIndex.open(database)
    for n in range(120):
        # the same vector for the query: nothing shared
        await library.add(f"d{(n * 37) % 120:03}", f"unrelated{n} words")
    every = [f"d{n:03}" for n in range(120)]
    for limit, candidates in ((5, 1), (5, 100), (50, 100), (120, 100)):
        hits = await library.search(
            query_vector=[*[0.0] * 63, 1.0], mode="vector", limit=limit, candidates=candidates
        )
        tied = [hit["document_id"] for hit in hits if hit["score"] == 0]
        assert tied == [name for name in every if name in tied]
    first = hit_positions(await library.search("nothing shared", mode="vector", limit=3))
    assert (
        first == hit_positions(await library.search("nothing shared", mode="vector", limit=120))[:3]
    )
