"""What the store on PostgreSQL writes, and what is left where a swap is broken off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest

from livedex.pipeline.errors import OutageError, RejectedError
from livedex.pipeline.model import Attributes, DocumentId
from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.drafts import Draft
from livedex.pipeline.store.postgres.statements import sql
from tests.support.builders.filled_store import (
    ACME,
    DIMENSIONS,
    A,
    B,
    StoreHarness,
    expected_chunks,
    fence,
    sections,
)

Rows = dict[str, set[tuple[str, str]]]
OLD, NEW = sections(1, 2, 3), sections(1, 4, 5, 6)


@pytest.fixture
async def shelf(database: Database) -> StoreHarness:
    store = PgVectorStore(database)
    return StoreHarness(store, database, await store.ensure_generation("counting", DIMENSIONS))


@pytest.fixture
async def narrow(owner_url: str) -> AsyncIterator[StoreHarness]:
    """A store with two connections."""
    async with open_database(owner_url, max_size=2) as database:
        store = PgVectorStore(database)
        yield StoreHarness(store, database, await store.ensure_generation("counting", DIMENSIONS))


async def rows(owner: asyncpg.Connection, shelf: StoreHarness) -> Rows:
    """Place and writing transaction of every row that is text, vector or chunk: another one where
    a row was written anew.
    """
    tables = ["passages", "chunks", f"vectors_{shelf.generation_id}"]
    return {
        table: {
            tuple(row) for row in await owner.fetch(f"select ctid::text, xmin::text from {table}")
        }
        for table in tables
    }


async def test_a_change_of_metadata_writes_no_passage_no_vector_and_no_chunk(
    shelf: StoreHarness, owner: asyncpg.Connection
) -> None:
    await shelf.put(A, 1, OLD, tags=["public"])
    before = await rows(owner, shelf)
    await shelf.put(A, 2, OLD, tags=["hr-only"])
    assert await rows(owner, shelf) == before
    assert all(before.values())


async def test_an_insert_at_the_top_writes_one_row_and_moves_none(
    shelf: StoreHarness, owner: asyncpg.Connection
) -> None:
    await shelf.put(A, 1, sections(*range(50)))
    before = await rows(owner, shelf)
    await shelf.put(A, 2, sections(99, *range(50)))
    after = await rows(owner, shelf)
    assert {table: len(after[table] - before[table]) for table in after} == {
        "passages": 1,
        "chunks": 2,
        f"vectors_{shelf.generation_id}": 1,
    }, "more than the section that came, and the gap of the one after it"


async def test_a_copy_and_a_move_write_chunks_alone(
    shelf: StoreHarness, owner: asyncpg.Connection
) -> None:
    await shelf.put(A, 1, OLD)
    before = await rows(owner, shelf)
    await shelf.put(B, 1, OLD)
    await shelf.store.delete_document(ACME, A, fence(2, deleted=True))
    after = await rows(owner, shelf)
    assert {table for table in after if after[table] != before[table]} == {"chunks"}
    assert sorted(shelf.embedder.texts) == OLD


async def broken_off(
    narrow: StoreHarness, owner: asyncpg.Connection
) -> tuple[Draft, asyncio.Task[object]]:
    """A sync that waits between taking the old chunks out and putting the new ones in."""
    await narrow.put(A, 1, OLD)
    draft = narrow.draft(A, fence(2), NEW)
    await narrow.prepare(draft)
    await owner.execute(
        "create function wait_here() returns trigger language plpgsql as 'begin perform "
        "pg_sleep(60); return null; end';"
        "create trigger wait_here before insert on chunks for each statement execute "
        "function wait_here()"
    )
    task: asyncio.Task[object] = asyncio.create_task(narrow.sync(draft))
    async with asyncio.timeout(10):
        while not await backends(owner, "state = 'active' and wait_event = 'PgSleep'"):
            assert not task.done()
            await asyncio.sleep(0.01)
    return draft, task


async def backends(owner: asyncpg.Connection, condition: str) -> list[int]:
    found = await owner.fetch(
        "select pid from pg_stat_activity where datname = current_database() and pid <> "
        f"pg_backend_pid() and {condition}"
    )
    return [row["pid"] for row in found]


async def check_old_then_new(narrow: StoreHarness, owner: asyncpg.Connection, draft: Draft) -> None:
    """The old version is whole and found; nothing hangs; the same sync succeeds the next time."""
    async with asyncio.timeout(10):
        while await backends(owner, "wait_event = 'PgSleep' or state like 'idle in transaction%'"):
            await asyncio.sleep(0.01)
    seen = await narrow.visible_document(A)
    assert seen is not None and (seen.version, seen.chunks) == (1, expected_chunks(OLD))
    assert [await narrow.found("only3", mode) for mode in ("keyword", "vector")] == [[A], [A]]
    assert [await narrow.found("only5", mode) for mode in ("keyword", "vector")] == [[], []]
    await owner.execute("drop trigger wait_here on chunks")
    assert (await narrow.sync(draft)).current  # type: ignore[attr-defined]
    seen = await narrow.visible_document(A)
    assert seen is not None and (seen.version, seen.chunks) == (2, expected_chunks(NEW))
    assert len(narrow.embedder.texts) == len({*OLD, *NEW})


async def test_a_cancelled_swap_leaves_the_old_version_and_a_pool_that_works(
    narrow: StoreHarness, owner: asyncpg.Connection
) -> None:
    draft, task = await broken_off(narrow, owner)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await check_old_then_new(narrow, owner, draft)


async def test_a_lost_connection_in_a_swap_is_an_outage_and_leaves_the_old_version(
    narrow: StoreHarness, owner: asyncpg.Connection
) -> None:
    draft, task = await broken_off(narrow, owner)
    for pid in await backends(owner, "wait_event = 'PgSleep'"):
        await owner.execute("select pg_terminate_backend($1)", pid)
    with pytest.raises(OutageError):
        await task
    await check_old_then_new(narrow, owner, draft)


async def test_many_documents_at_once_need_no_more_connections_than_there_are(
    narrow: StoreHarness,
) -> None:
    async with asyncio.timeout(30):
        await asyncio.gather(
            *(narrow.put(A if n % 2 else B, n // 2 + 1, sections(n, n + 1)) for n in range(16))
        )
    seen = await narrow.visible_document(A)
    assert seen is not None and seen.version == 8


@pytest.mark.parametrize(("hours", "kept"), [(0.0, {3}), (1.0, {1, 2, 3})])
async def test_content_of_an_ended_version_is_cleared_once_no_late_event_can_name_it(
    shelf: StoreHarness, database: Database, owner: asyncpg.Connection, hours: float, kept: set[int]
) -> None:
    await shelf.put(A, 2, OLD)
    for version in (1, 2, 3):
        await owner.execute(
            "insert into blobs (tenant_id, document_id, version, sha256, content) values "
            "('acme', $1, $2, '', '')",
            A,
            version,
        )
    await owner.execute("update blobs set created_at = now() - interval '30 minutes'")
    async with database.tenant(ACME) as connection:
        await connection.execute(sql("clear_blobs"), ACME, hours)
    assert {row["version"] for row in await owner.fetch("select version from blobs")} == kept


@pytest.mark.parametrize(
    ("document_id", "metadata", "advice"),
    [
        ("".join(f"{n:x}é€" for n in range(1200)), {}, "2000 bytes"),
        ("a\x00b", {}, "remove the character"),
        ("a", {"k": "a\x00b"}, "remove the character"),
        ("a\ud800", {}, "check its characters"),
    ],
    ids=["long", "nul", "nul in metadata", "surrogate"],
)
async def test_what_can_never_be_stored_says_what_to_do_in_one_line(
    shelf: StoreHarness, document_id: str, metadata: dict[str, str], advice: str
) -> None:
    attributes = Attributes(metadata=metadata)
    with pytest.raises(RejectedError) as refused:
        await shelf.store.accept(
            ACME, DocumentId(document_id), fence(1), attributes, datetime.now(UTC)
        )
    said = str(refused.value)
    assert refused.value.reason == "not_storable" and advice in said
    assert len(said) < 500 and not any(
        word in said for word in ("\n", "DETAIL", "HINT", "btree", "$2")
    )
