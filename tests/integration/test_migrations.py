"""The schema: idempotent, and tenants apart in the database itself."""

import asyncio

import asyncpg

from livedex.pipeline.model import TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.schema.migration_script import migration_script
from livedex.pipeline.store.schema.migrator import all_migrations, migrate


async def test_migrating_again_does_nothing(owner: asyncpg.Connection) -> None:
    assert await migrate(owner) == []


async def test_two_that_migrate_at_once_both_succeed(server_url: str, owner_url: str) -> None:
    first, second = await asyncpg.connect(owner_url), await asyncpg.connect(owner_url)
    await first.execute("drop schema public cascade; create schema public")
    applied = await asyncio.gather(migrate(first), migrate(second))
    assert sorted(map(len, applied)) == [0, len(all_migrations())]
    await asyncio.gather(first.close(), second.close())


async def test_the_printed_statements_make_the_same_schema(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    await owner.execute("drop schema public cascade; create schema public")
    await owner.execute(migration_script())
    assert await migrate(owner) == []


async def test_every_table_with_a_tenant_forces_row_level_security(
    owner: asyncpg.Connection,
) -> None:
    await owner.fetchval("select ensure_generation('test', 8)")
    rows = await owner.fetch("""
        select c.relname, c.relrowsecurity, c.relforcerowsecurity,
               (select count(*) from pg_policy p where p.polrelid = c.oid and p.polcmd = '*'
                 and p.polqual is not null and p.polwithcheck is not null) as policies
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
          and not a.attisdropped
        where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace""")
    assert len(rows) >= 16
    assert [
        r["relname"]
        for r in rows
        if not (r["relrowsecurity"] and r["relforcerowsecurity"] and r["policies"] == 1)
    ] == []


async def test_only_the_audited_functions_look_across_the_policy(owner: asyncpg.Connection) -> None:
    rows = await owner.fetch("""
        select p.proname, p.proowner::regrole::text as role, coalesce(array_to_string(p.proconfig,
          ','), '') as config
        from pg_proc p where p.prosecdef and p.pronamespace = 'public'::regnamespace
          and not exists (
            select from pg_depend d where d.objid = p.oid and d.deptype = 'e')""")
    audited = {
        "tenant_ids",
        "keyword_candidates",
        "field_candidates",
        "visible_words",
        "find_api_key",
        "has_api_keys",
        "subscriber_tenants",
    }
    assert {r["proname"] for r in rows if r["role"] == "livedex_definer"} == audited
    assert {r["proname"] for r in rows} == audited | {"ensure_generation"}
    assert all(r["config"].startswith("search_path=pg_catalog") for r in rows)


async def test_the_application_sees_no_row_without_a_tenant_and_only_its_own_with_one(
    owner: asyncpg.Connection, database: Database
) -> None:
    generation = await owner.fetchval("select ensure_generation('test', 2)")
    for tenant in ("a", "b"):
        await owner.execute("insert into tenants (tenant_id) values ($1)", tenant)
        await owner.execute(
            "insert into documents (tenant_id, document_id) values ($1, 'x')", tenant
        )
        passage = await owner.fetchval(
            "insert into passages (tenant_id, hash, content, length, tsv) values ($1, "
            "'\\x01', 'one', 3, 'one'::tsvector) returning passage_id",
            tenant,
        )
        await owner.execute(
            f"insert into vectors_{generation} values ($1, $2, '[1,0]')", tenant, passage
        )
    tables = ["tenants", "documents", "passages", f"vectors_{generation}"]
    for table in tables:
        async with database.system() as connection:
            assert await connection.fetchval(f"select count(*) from {table}") == 0
        async with database.tenant(TenantId("a")) as connection:
            assert [
                r["tenant_id"] for r in await connection.fetch(f"select tenant_id from {table}")
            ] == ["a"]
    async with database.tenant(TenantId("b")) as connection:
        found = await connection.fetch(
            "select * from keyword_candidates('one', '{one}', '{1}', 1, 10)"
        )
        assert len(found) == 1
    async with database.system() as connection:
        assert (
            await connection.fetch("select * from keyword_candidates('one', '{one}', '{1}', 1, 10)")
            == []
        )
    assert await database.tenants() == ["a", "b"]
