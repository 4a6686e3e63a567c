"""Nobody is told of a document that is not for them: held against a model, by what the statements
say, and by the database alone.
"""

from __future__ import annotations

import random
from pathlib import Path

import asyncpg
import pytest

from livedex.pipeline.errors import OutageError
from livedex.pipeline.model import Reader
from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.documents.vector_index import maintain_vector_index
from livedex.pipeline.store.postgres.statements import all_statements
from tests.support.builders.search_corpus import TENANT, SearchIndex
from tests.support.models.document_rights import PRINCIPALS, ReaderCheck, fill, make_documents
from tests.support.postgres.predicate_removal import (
    strip_tenant_predicates,
    without_tenant_predicates,
)

DOCUMENTS = 40
READERS = [
    None,
    frozenset[str](),
    frozenset(["nobody knows"]),
    frozenset(PRINCIPALS),
    *(frozenset([p]) for p in PRINCIPALS),
    frozenset(PRINCIPALS[:2]),
]


async def _wrongs(library: SearchIndex, seed: int) -> list[str]:
    """What readers of a filled index were told wrongly."""
    rng = random.Random(seed)
    documents = make_documents(rng, DOCUMENTS)
    await fill(library, documents)
    return [
        wrong
        for principals in READERS
        for wrong in await ReaderCheck(library, documents, principals, rng).violations()
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_every_reader_is_told_of_all_that_is_for_them_and_of_nothing_else(
    database: Database, seed: int
) -> None:
    assert await _wrongs(await SearchIndex.open(database, dimensions=16), seed) == []


async def test_the_vector_index_answers_each_reader_as_the_scan_does(
    database: Database, owner_url: str
) -> None:
    library = await SearchIndex.open(database, dimensions=16, exact_passages=0)
    assert library.space.generation_id is not None
    await maintain_vector_index(owner_url, library.space.generation_id, 1)
    assert await _wrongs(library, 4) == []


async def test_nor_is_anybody_when_no_statement_says_anything_of_rights(database: Database) -> None:
    with without_tenant_predicates():
        assert "readable(" not in "".join(
            strip_tenant_predicates(text) for text in all_statements().values()
        )
        assert await _wrongs(await SearchIndex.open(database, dimensions=16), 5) == []


async def test_that_is_the_work_of_the_policy_then(
    database: Database, owner: asyncpg.Connection
) -> None:
    await owner.execute("drop policy rights on documents")
    with without_tenant_predicates():
        assert await _wrongs(await SearchIndex.open(database, dimensions=16), 5) != []


async def test_and_without_the_policy_it_is_the_work_of_the_statements(
    database: Database, owner: asyncpg.Connection
) -> None:
    await owner.execute("drop policy rights on documents")
    assert await _wrongs(await SearchIndex.open(database, dimensions=16), 5) == []


def test_every_statement_that_answers_a_reader_says_who_may_read() -> None:
    answering = {
        "read_document",
        "page_documents",
        "read_document_chunks",
        "read_collections",
        "read_progress",
        "keyword_matches",
        "visible_passages",
        "nearest_matches",
        "nearest_indexed",
        "chunks_of_passages",
        "read_hits",
        "found_documents",
        "readable_names",
        "neighbouring_chunks",
        "field_places",
    }
    assert {name for name, text in all_statements().items() if "readable(" in text} == answering


async def test_a_transaction_that_says_nothing_of_its_reader_sees_what_is_for_everybody(
    database: Database, owner: asyncpg.Connection
) -> None:
    await owner.execute(
        "insert into documents (tenant_id, document_id, acl) values ('acme', 'all', null), "
        "('acme', 'none', '{}'), ('acme', 'ann', '{user:ann}')"
    )
    async with database.tenant(TENANT) as connection:
        assert await connection.fetchval("select count(*) from documents") == 3
        for said in ("", "{}", "{user:bob}"):
            await connection.execute("select set_config('livedex.principals', $1, true)", said)
            assert [
                row[0] for row in await connection.fetch("select document_id from documents")
            ] == ["all"], said
        await connection.execute("select set_config('livedex.principals', '{user:ann}', true)")
        assert await connection.fetchval("select count(*) from documents") == 2
    async with database.system() as connection:
        await connection.execute("select set_config('livedex.tenant', 'acme', true)")
        assert [row[0] for row in await connection.fetch("select document_id from documents")] == [
            "all"
        ]


async def test_for_whom_is_read_ends_with_the_transaction(owner_url: str) -> None:
    async with open_database(owner_url, max_size=1) as database:
        with pytest.raises(ZeroDivisionError):
            async with database.read_transaction(Reader(TENANT, frozenset(["user:ann"])), "read"):
                raise ZeroDivisionError
        async with database.system() as connection:
            assert await connection.fetchval(
                "select current_setting('livedex.principals', true)"
            ) in (None, "")
        async with database.tenant(TENANT) as connection:
            assert (
                await connection.fetchval("select current_setting('livedex.principals', true)")
                == "*"
            )


async def test_nobody_writes_while_reading_for_somebody(database: Database) -> None:
    with pytest.raises(OutageError, match="read-only"):
        async with database.read_transaction(Reader(TENANT), "read") as connection:
            await connection.execute("insert into tenants (tenant_id) values ('acme')")


async def test_what_crowds_a_reader_out_of_the_candidates_is_only_what_it_may_read(
    database: Database,
) -> None:
    library = await SearchIndex.open(database, dimensions=16)
    for n in range(60):
        await library.add(f"secret {n}", f"saffron saffron saffron number{n}", acl=("user:ann",))
    for n in range(5):
        await library.add(
            f"open {n}", f"saffron among a great many other words that stand here and there {n}"
        )
    for mode in ("keyword", "vector", "hybrid"):
        found = await library.found(
            "saffron", mode=mode, principals=frozenset(["user:bob"]), limit=5, candidates=5
        )
        assert sorted(found) == [f"open {n}" for n in range(5)], mode
    reader = Reader(TENANT, frozenset(["user:bob"]))
    async with database.read_transaction(reader, "candidates", snapshot=True) as connection:
        rows = await connection.fetch(
            "select passage_id from keyword_candidates('saffron', array['saffron'::tsquery], "
            "array[1.0::float8], 4, 20)"
        )
    assert len(rows) == 5


async def test_rights_are_on_documents_and_not_on_the_texts_behind_them_as_the_security_policy_says(
    database: Database,
) -> None:
    library = await SearchIndex.open(database, dimensions=16)
    await library.add("hidden", "saffron", acl=())
    async with database.read_transaction(
        Reader(TENANT, frozenset(["user:bob"])), "look"
    ) as connection:
        seen = {
            table: await connection.fetchval(f"select count(*) from {table}")
            for table in ("documents", "chunks", "passages")
        }
    assert seen == {"documents": 0, "chunks": 1, "passages": 1}
    assert "SQL as the application's role sees the texts" in " ".join(
        (Path(__file__).parents[2] / "SECURITY.md").read_text("utf-8").split()
    )
