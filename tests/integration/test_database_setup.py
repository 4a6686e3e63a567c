"""The schema where others administer the server: other roles, other schemas, scripts, and dumps
that were restored.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import numpy as np
import pytest

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.store.database import open_database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.documents.vector_index import maintain_vector_index
from livedex.pipeline.store.postgres.connection import connect
from livedex.pipeline.store.postgres.conninfo import parse_conninfo
from livedex.pipeline.store.schema.database_roles import DEFAULT_ROLES, DatabaseRoles
from livedex.pipeline.store.schema.migration_script import migration_script
from livedex.pipeline.store.schema.migrator import check_privileges, granted_privileges, migrate
from livedex.pipeline.store.schema.privileges import SchemaPrivileges
from tests.support.builders.document_states import DocumentBuilder
from tests.support.postgres.databases import with_database
from tests.support.postgres.programs import ProgramError, libpq_uri, run_program, run_sql

_NUMBERS = itertools.count()

RIGHTS = """
select 'table ' || c.relname, c.relrowsecurity::text || c.relforcerowsecurity,
  (select array_agg(x::text order by x::text) from unnest(c.relacl) x)
from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
union all select 'function ' || p.oid::regprocedure, pg_get_userbyid(p.proowner),
  (select array_agg(x::text order by x::text) from unnest(p.proacl) x)
from pg_proc p where p.pronamespace = 'public'::regnamespace and not exists (select
  from pg_depend d where d.objid = p.oid and d.deptype = 'e')
union all select 'policy ' || polrelid::regclass || ' ' || polname, polcmd::text,
  array(select pg_get_userbyid(r)::text from unnest(polroles) r) from pg_policy
order by 1"""


@asynccontextmanager
async def empty_database(server_url: str, *, owner: str | None = None) -> AsyncIterator[str]:
    """A database without a schema, for as long as the block lasts; its URL as an administrator."""
    name = f"livedex_setup_{os.getpid()}_{next(_NUMBERS)}"
    admin = await connect(server_url)
    try:
        await admin.execute(f"create database {name}" + (f" owner {owner}" if owner else ""))
        yield with_database(server_url, name)
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


@asynccontextmanager
async def some_roles(
    server_url: str, *names: str, options: str = "login createrole"
) -> AsyncIterator[None]:
    """Roles for as long as the block lasts, and those that they make."""
    admin = await connect(server_url)
    try:
        for name in names:
            await admin.execute(f"create role {name} {options}")
        yield
    finally:
        for name in names:
            for made in await admin.fetch(
                "select rolname from pg_roles where rolname like $1",
                name.replace("_owner", "") + r"\_%",
            ):
                await admin.execute(
                    f'drop owned by "{made["rolname"]}"; drop role "{made["rolname"]}"'
                )
        await admin.close()


def as_user(url: str, user: str) -> str:
    """The same database for another login."""
    return url.replace("//postgres@", f"//{user}@", 1)


async def fill(url: str, roles: DatabaseRoles = DEFAULT_ROLES) -> None:
    """Write, index and find a document of each of two tenants, as a process does."""
    async with open_database(url, max_size=2, roles=roles) as database:
        store = PgVectorStore(database)
        generation = await store.ensure_generation("test", 4)
        for tenant in ("a", "b"):
            await DocumentBuilder(database).sync("doc", 1, "green tea wants water", tenant=tenant)
            async with database.tenant(TenantId(tenant)) as connection:
                passage = PassageId(await connection.fetchval("select passage_id from passages"))
            await store.upsert_vectors(
                TenantId(tenant), generation, {passage: np.ones(4, np.float32)}
            )


async def found(url: str, roles: DatabaseRoles = DEFAULT_ROLES) -> dict[str, tuple[int, int, int]]:
    """Documents, vectors, and passages that hold a word, of each tenant as the application sees
    them.
    """
    seen = {}
    async with open_database(url, max_size=2, roles=roles) as database:
        async with database.system() as connection:
            generation = await connection.fetchval("select max(generation_id) from generations")
        for tenant_id in await database.tenants():
            async with database.tenant(tenant_id) as connection:
                seen[str(tenant_id)] = (
                    await connection.fetchval("select count(*) from documents"),
                    await connection.fetchval(
                        f"select count(*) from vectors_{generation} where embedding <=> "
                        "embedding < 0.01"
                    ),
                    await connection.fetchval(
                        "select count(*) from keyword_candidates('tea', '{tea}', '{1}', 1, 10)"
                    ),
                )
    return seen


BOTH = {"a": (1, 1, 1), "b": (1, 1, 1)}


async def rights(url: str) -> Sequence[tuple[object, ...]]:
    connection = await connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(RIGHTS)]
    finally:
        await connection.close()


async def run_migrate(url: str, roles: DatabaseRoles = DEFAULT_ROLES) -> list[str]:
    connection = await connect(url)
    try:
        return await migrate(connection, roles)
    finally:
        await connection.close()


async def test_the_script_can_be_applied_again_by_psql_before_and_after_there_is_data(
    server_url: str,
) -> None:
    async with empty_database(server_url) as url:
        for _ in range(2):
            await run_sql(url, migration_script())
        await fill(url)
        before = await rights(url)
        await run_sql(url, migration_script())
        assert await rights(url) == before
        assert await run_migrate(url) == []
        assert await found(url) == BOTH


async def test_the_script_continues_where_the_program_stopped_and_refuses_a_changed_migration(
    owner_url: str,
) -> None:
    await run_sql(
        owner_url,
        "drop table notices, subscribers; delete from migrations where number = 9;"
        + migration_script(),
    )
    await run_sql(owner_url, "select * from notices, subscribers")
    with pytest.raises(ProgramError, match=r"0003_keyword_candidates\.sql was changed"):
        await run_sql(
            owner_url, "update migrations set sha256 = 'x' where number = 3;" + migration_script()
        )


@pytest.mark.parametrize("how", [[], ["--no-owner", "--no-acl"], ["--no-policies"]], ids=" ".join)
async def test_a_restored_dump_is_made_whole_by_migrate(
    server_url: str, owner_url: str, how: list[str]
) -> None:
    await fill(owner_url)
    whole = await rights(owner_url)
    dump = await run_program("pg_dump", "-Fc", "-d", libpq_uri(owner_url))
    async with empty_database(server_url) as url:
        await run_program("pg_restore", "-d", libpq_uri(url), *how, data=dump)
        await run_migrate(url)
        assert await rights(url) == whole
        assert await found(url) == BOTH
        assert await run_migrate(url) == []


async def test_a_dump_restored_where_the_roles_are_missing_or_taken_gets_roles_of_its_own(
    server_url: str, owner_url: str
) -> None:
    await fill(owner_url)
    dump = await run_program("pg_dump", "-Fc", "-d", libpq_uri(owner_url))
    async with (
        some_roles(server_url, "restored_owner"),
        empty_database(server_url, owner="restored_owner") as admin_url,
    ):
        await run_sql(admin_url, "create extension vector")
        url = as_user(admin_url, "restored_owner")  # no superuser
        await run_program(
            "pg_restore", "--no-owner", "--no-acl", "--no-comments", "-d", libpq_uri(url), data=dump
        )
        others = DatabaseRoles("restored")
        await run_migrate(url, others)
        assert await found(url, others) == BOTH
        definers = await connect(url)
        assert (
            await definers.fetchval(
                "select count(*) from pg_policy where 'livedex_definer'::regrole = any (polroles)"
            )
            == 0
        )
        assert await definers.fetchval("select ensure_generation('other', 4)")
        assert await definers.fetchval(
            "select has_table_privilege('restored_app', 'vectors_' || max(generation_id), "
            "'insert') from generations"
        )
        await definers.close()


async def test_a_process_says_what_a_restored_schema_lacks(
    server_url: str, owner: asyncpg.Connection
) -> None:
    await owner.execute("revoke select on generations from livedex_app")
    with pytest.raises(
        ConfigError,
        match="run `livedex migrate` as the owner, which runs: grant select on generations "
        "to livedex_app",
    ):
        await check_privileges(owner, DEFAULT_ROLES)
    with pytest.raises(ConfigError, match="nowhere_app"):
        await check_privileges(owner, DatabaseRoles("nowhere"))


async def test_a_grant_that_is_an_administrators_to_give_is_named(server_url: str) -> None:
    async with (
        some_roles(server_url, "guest_owner"),
        empty_database(server_url, owner="guest_owner") as url,
    ):
        await run_sql(
            url,
            "create schema extensions; grant usage on schema extensions to guest_owner; "
            "create extension vector schema extensions",
        )
        with pytest.raises(
            ConfigError,
            match='run as an administrator: grant usage on schema "extensions" to guest_app;',
        ):
            await run_migrate(as_user(url, "guest_owner"), DatabaseRoles("guest"))
        await run_sql(url, 'grant usage on schema "extensions" to guest_app')
        assert await run_migrate(as_user(url, "guest_owner"), DatabaseRoles("guest")) == []


async def test_every_right_that_gets_lost_is_granted_again(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    await owner.execute("select ensure_generation('test', 4)")
    whole = await rights(owner_url)
    for table in [
        row[0]
        for row in await owner.fetch(
            "select relname from pg_class where relnamespace = 'public'::regnamespace and "
            "relkind = 'r'"
        )
    ]:
        await owner.execute(
            f"revoke all on {table} from livedex_app, livedex_definer; alter table {table} "
            "disable row level security"
        )
        for policy in [
            row[0]
            for row in await owner.fetch(
                "select polname from pg_policy where polrelid = $1::regclass", table
            )
        ]:
            await owner.execute(f"drop policy {policy} on {table}")
    await owner.execute("revoke usage on schema public from livedex_app, livedex_definer")
    for name in [
        row[0]
        for row in await owner.fetch(
            "select oid::regprocedure::text from pg_proc where prosecdef and pronamespace = "
            "'public'::regnamespace"
        )
    ]:
        await owner.execute(
            f"alter function {name} owner to current_user; revoke all on function {name} "
            f"from livedex_app; grant execute on function {name} to public"
        )
    assert await migrate(owner) == []
    changed = {row[0]: row for row in await rights(owner_url)}
    assert [row for row in whole if changed[row[0]] != row] == []


async def test_two_owners_that_are_no_superusers_have_an_index_each_on_one_server(
    server_url: str,
) -> None:
    first, second = DatabaseRoles("first"), DatabaseRoles("second")
    async with (
        some_roles(server_url, "first_owner", "second_owner"),
        empty_database(server_url, owner="first_owner") as one,
        empty_database(server_url, owner="second_owner") as two,
    ):
        for url in (one, two):
            await run_sql(url, "create extension vector")  # needs an administrator
        await run_migrate(as_user(one, "first_owner"), first)
        with pytest.raises(
            ConfigError,
            match=r"roles first_app, first_definer, .* set LIVEDEX_ROLE_PREFIX .* grant "
            r"first_app, first_definer to",
        ):
            await run_migrate(as_user(two, "second_owner"), first)
        await run_migrate(as_user(two, "second_owner"), second)
        for url, roles in ((one, first), (two, second)):
            owner = as_user(url, f"{roles.prefix}_owner")
            assert await run_migrate(owner, roles) == []
            await fill(owner, roles)
            assert await found(owner, roles) == BOTH
            assert not await maintain_vector_index(owner, await _generation(owner), 3)
            assert await maintain_vector_index(owner, await _generation(owner), 2), (
                "the policies bind this owner, and its vectors are counted all the same"
            )
        with pytest.raises((ConfigError, asyncpg.PostgresError)):
            await found(as_user(one, "second_app"), first)


async def _generation(url: str) -> GenerationId:
    connection = await connect(url)
    try:
        return GenerationId(await connection.fetchval("select max(generation_id) from generations"))
    finally:
        await connection.close()


@pytest.mark.parametrize("path", ["", "'extensions', '$user'", "nowhere", "pg_catalog"])
async def test_pgvector_is_found_in_a_schema_of_its_own_below_any_search_path(
    server_url: str, path: str
) -> None:
    async with empty_database(server_url) as url:
        name = parse_conninfo(url)["dbname"]
        await run_sql(
            url,
            "create schema extensions; create extension vector schema extensions; alter "
            f"database {name} set search_path = {path or 'default'}",
        )
        await run_migrate(url)
        await fill(url)
        assert await found(url) == BOTH
        assert await maintain_vector_index(url, await _generation(url), 1)
        async with open_database(url, max_size=1) as database:
            assert await PgVectorStore(database).ensure_generation("another", 2000)
            async with database.system() as connection:
                assert await connection.fetchval("select 1 from queue") is None


def test_the_rights_are_read_from_what_the_migrations_say() -> None:
    script = """
    create table if not exists t (tenant_id text); grant select, insert on t,
      u to livedex_app; -- grant delete on t to livedex_app;
    create function f(a text, b double precision[]) returns text language sql as $$
      select ';grant all on t to livedex_app' $$;
    grant execute on function f(text, double precision[]), g() to livedex_app,
      livedex_definer; revoke all on function f(text, double precision[]) from public;
    alter function g() owner to livedex_definer; create policy p on t as restrictive for
      select to livedex_definer using (a = 'x;y');
    create policy q on t using (true); drop function g(); create table gone (a int); grant select
      on gone to livedex_app; create policy r on gone using (true);
    create policy s on t using (true); drop table if exists gone; drop policy s on t;"""
    read = SchemaPrivileges([script], DEFAULT_ROLES)
    assert read._grants == {
        ("t", "livedex_app"): {"select", "insert"},
        ("u", "livedex_app"): {"select", "insert"},
    }
    assert read._executors == {
        ("f(text, double precision[])", role) for role in ("livedex_app", "livedex_definer")
    }
    assert (read._owners, read._revoked_from_public) == ({}, {"f(text, double precision[])"})
    assert {key: policy.role for key, policy in read._policies.items()} == {
        ("t", "p"): "livedex_definer",
        ("t", "q"): None,
    }
    assert granted_privileges(DEFAULT_ROLES)._owners["tenant_ids()"] == "livedex_definer"
