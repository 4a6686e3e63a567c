"""Deleting a tenant removes everything that it has and nothing else, and nothing under way brings
it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import click
import pytest
from pydantic import ValidationError

from livedex.cli.options import parse_tenant_name
from livedex.pipeline.errors import ConflictError, NotFoundError, TenantDeletedError
from livedex.pipeline.events.event import CHANGED, Changed, change_event
from livedex.pipeline.model import DEFAULT_TENANT, Attributes, DocumentId, TenantId
from livedex.pipeline.names import RESERVED
from livedex.pipeline.search.word_statistics import refresh_word_statistics
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.webhook_source import WebhookSource
from livedex.pipeline.stages.outcome import Finished, outcome_of
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.embedding_claims import EmbeddingClaims
from livedex.pipeline.store.tenant_store import TenantStore
from tests.support.builders.document_states import fence
from tests.support.builders.filled_store import ACME, DIMENSIONS, OTHER, StoreHarness, sections
from tests.support.builders.filled_store import fence as shelf_fence

DOC = DocumentId("docs/a.md")
Fill = Callable[[TenantId], Awaitable[None]]


@pytest.fixture
def tenants(database: Database) -> TenantStore:
    return TenantStore(database, PostgresBlobStore(database))


@pytest.fixture
def fill(
    database: Database, owner: asyncpg.Connection, owner_url: str, new_key: Callable[..., Any]
) -> Fill:
    """Puts something of a tenant into every table."""
    return lambda tenant: _fill(tenant, database, owner, owner_url, new_key)


async def _fill(
    tenant: TenantId,
    database: Database,
    owner: asyncpg.Connection,
    url: str,
    new_key: Callable[..., Any],
) -> None:
    store, generation = (
        PgVectorStore(database),
        await owner.fetchval("select ensure_generation('test', $1)", DIMENSIONS),
    )
    shelf = StoreHarness(store, database, generation)
    await shelf.put(DOC, 1, sections(1, 2, 3), tenant=tenant)
    await shelf.prepare(shelf.draft(DOC, shelf_fence(2), sections(2, 3, 4), tenant=tenant))
    await PostgresBlobStore(database).put(tenant, DOC, 3, b"large")
    await DeadLetterStore(database).bury(
        DeadLetter("l-" + tenant, tenant, "chunk", DOC, 4, "failed", "why", 1)
    )
    await refresh_word_statistics(database, tenant)
    claims = EmbeddingClaims(database)
    try:
        await claims.take(
            tenant,
            generation,
            [
                await owner.fetchval(
                    "select min(passage_id) from passages where tenant_id = $1", tenant
                )
            ],
        )
    finally:
        await claims.close()
    await new_key(tenant)
    await owner.execute(
        "insert into source_files (tenant_id, source, path, document_id, fingerprint, "
        "version) values ($1, 's', 'p', 'd', '', 1)",
        tenant,
    )
    await owner.execute(
        "insert into unused_passages (tenant_id, passage_id) select tenant_id, passage_id "
        "from passages where tenant_id = $1 limit 1",
        tenant,
    )
    event = change_event(Changed(tenant_id=tenant, document_id=DOC, version=5, deleted=True))
    await owner.execute(
        "insert into queue (queue, payload) values ($1, $2), ($1, 'no event')",
        CHANGED,
        event.encode(),
    )


async def rows_of(owner: asyncpg.Connection, tenant: str) -> dict[str, int]:
    """Of a tenant, in every table that has any."""
    tables = await owner.fetch("""
        select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
          and a.attname = 'tenant_id' and not a.attisdropped
        where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace""")
    counts = {
        t["name"]: await owner.fetchval(
            f'select count(*) from "{t["name"]}" where tenant_id = $1', tenant
        )
        for t in tables
    }
    counts["queue"] = await owner.fetchval(
        "select count(*) from queue where position($1::bytea in payload) > 0",
        f'"tenant_id":"{tenant}"'.encode(),
    )
    return {name: number for name, number in counts.items() if number}


async def test_everything_of_a_tenant_goes_and_nothing_of_another(
    owner: asyncpg.Connection, tenants: TenantStore, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.pipeline.store.tenant_store._DELETE_BATCH_ROWS", 2)
    for tenant in (ACME, OTHER):
        await fill(tenant)
    before, others = await rows_of(owner, ACME), await rows_of(owner, OTHER)
    written = {
        "blobs",
        "dead_letters",
        "documents",
        "chunks",
        "passages",
        "vectors_1",
        "manifests",
        "source_files",
        "api_keys",
        "queue",
        "tenants",
        "word_counts",
        "word_totals",
        "embedding_claims",
        "unused_passages",
        "collections",
    }
    assert written <= set(before)
    assert await tenants.count_rows(ACME) == {
        name: number for name, number in before.items() if name != "tenants"
    }
    await tenants.delete(ACME)
    assert await rows_of(owner, ACME) == {"deleted_tenants": 1}
    assert await rows_of(owner, OTHER) == others
    assert await owner.fetchval("select count(*) from queue where payload = 'no event'") == 2
    assert [tenant.tenant_id for tenant in await tenants.all()] == [OTHER]


async def test_every_table_of_tenants_is_guarded_or_stands_below_one_that_is(
    owner: asyncpg.Connection,
) -> None:
    await owner.fetchval("select ensure_generation('test', 2)")
    rows = await owner.fetch("""
        with tables as (
            select c.oid, c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
              and a.attname = 'tenant_id' and not a.attisdropped
            where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace
              and c.relname <> 'deleted_tenants'
        ), guarded as (
            select t.oid from tables t join pg_trigger g on g.tgrelid = t.oid
              and g.tgname = 'refuse_deleted_tenant'
        )
        select t.relname from tables t
        where t.oid not in (select oid from guarded)
          and not exists (select from pg_constraint f where f.conrelid = t.oid and f.contype = 'f'
            and f.confrelid in (select oid from guarded))""")
    assert [row["relname"] for row in rows] == []


async def test_an_event_under_way_does_not_bring_a_tenant_back(
    database: Database,
    owner: asyncpg.Connection,
    tenants: TenantStore,
    fill: Fill,
    new_key: Callable[..., Any],
) -> None:
    await fill(ACME)
    await tenants.delete(ACME)
    store, now = PgVectorStore(database), datetime.now(UTC)
    shelf = StoreHarness(
        store, database, await owner.fetchval("select ensure_generation('test', $1)", DIMENSIONS)
    )
    writes = (
        store.accept(ACME, DOC, fence(9), Attributes(), now),
        store.save_drafts([shelf.draft(DOC, shelf_fence(9), sections(1))]),
        DeadLetterStore(database).bury(DeadLetter("l", ACME, "chunk", DOC, 9, "failed", "why", 1)),
        PostgresBlobStore(database).put(ACME, DOC, 9, b"large"),
        new_key(ACME),
        store.delete_document(ACME, DOC, fence(9, deleted=True)),
    )
    for write in writes:
        with pytest.raises(TenantDeletedError) as refused:
            await write
        assert outcome_of(refused.value, attempt=1) == Finished(superseded=True)
    await store.upsert_vectors(ACME, shelf.generation_id, {1: [1.0] * DIMENSIONS})
    assert await rows_of(owner, ACME) == {"deleted_tenants": 1}


async def test_whoever_writes_while_the_mark_is_set_is_waited_for(
    database: Database, owner: asyncpg.Connection, tenants: TenantStore
) -> None:
    async with database.tenant(ACME) as connection:
        await connection.execute(
            "insert into tenants (tenant_id) values ('acme') on conflict do nothing"
        )
        deletion = asyncio.create_task(tenants.delete(ACME))
        while not await owner.fetchval(
            "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        ):
            await asyncio.sleep(0.01)
            assert not deletion.done()
        await connection.execute(
            "insert into documents (tenant_id, document_id) values ('acme', 'late')"
        )
    await deletion
    assert await rows_of(owner, ACME) == {"deleted_tenants": 1}


async def test_a_deletion_that_was_cut_off_is_begun_again(
    owner: asyncpg.Connection, tenants: TenantStore, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(ACME)

    async def away(tenant_id: TenantId) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(tenants._blobs, "discard_tenant", away)
        with pytest.raises(asyncio.CancelledError):
            await tenants.delete(ACME)
    assert [tenant.tenant_id for tenant in await tenants.all()] == [ACME]
    assert (await tenants.count_rows(ACME))["documents"] == 1
    await tenants.delete(ACME)
    assert await rows_of(owner, ACME) == {"deleted_tenants": 1}


async def test_a_name_is_taken_again_only_on_purpose(tenants: TenantStore) -> None:
    assert (await tenants.create(ACME)).documents == 0
    with pytest.raises(ConflictError, match="already"):
        await tenants.create(ACME)
    await tenants.delete(ACME)
    with pytest.raises(ConflictError, match="--again"):
        await tenants.create(ACME)
    with pytest.raises(NotFoundError):
        await tenants.count_rows(ACME)
    assert (await tenants.create(ACME, again=True)).tenant_id == ACME


async def test_the_default_tenant_is_emptied_and_stays_usable(
    database: Database, owner: asyncpg.Connection, tenants: TenantStore
) -> None:
    store, now = PgVectorStore(database), datetime.now(UTC)
    await store.accept(DEFAULT_TENANT, DOC, fence(1), Attributes(), now)
    await tenants.delete(DEFAULT_TENANT)
    assert await rows_of(owner, DEFAULT_TENANT) == {}
    await store.accept(DEFAULT_TENANT, DOC, fence(1), Attributes(), now)


@pytest.mark.parametrize("name", sorted(RESERVED))
async def test_what_is_reserved_is_no_tenant_and_keeps_its_letters(
    database: Database, tenants: TenantStore, name: str
) -> None:
    letters = DeadLetterStore(database)
    await letters.bury(
        DeadLetter("one", TenantId(name), "chunk", None, None, "invalid_event", "no JSON", 1)
    )
    for refused in (tenants.delete(TenantId(name)), tenants.create(TenantId(name), again=True)):
        with pytest.raises(ConflictError, match="reserved"):
            await refused
    await letters.bury(
        DeadLetter("two", TenantId(name), "chunk", None, None, "invalid_event", "no JSON", 1)
    )
    assert [letter.letter_id for letter in await letters.all()] == ["one", "two"]
    with pytest.raises(click.BadParameter, match="reserved"):
        parse_tenant_name(click.Context(click.Command("x")), click.Option(["--tenant"]), name)
    with pytest.raises(ValidationError, match="reserved"):
        # as the file has it
        FolderSource(name="s", path="/x", tenant=name)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="reserved"):
        WebhookSource(name="s", preset="notion", secret_env="S", tenant=name)
