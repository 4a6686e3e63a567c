"""Bring the schema up to date: numbered `.sql` files, each run once in a transaction of its own.

Two processes that start at once are safe: the second waits for the first one's advisory lock and
then finds nothing to do.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources

import asyncpg

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.store.postgres.connection import connect, database_location
from livedex.pipeline.store.schema.database_roles import DEFAULT_ROLES, DatabaseRoles
from livedex.pipeline.store.schema.privileges import MissingRolesError, SchemaPrivileges
from livedex.pipeline.store.schema.version_checks import (
    check_pgvector_version,
    check_server_version,
    pgvector_schema,
    set_search_path,
)

log = logging.getLogger(__name__)

APPLICATION_ROLE = DEFAULT_ROLES.application
MIGRATION_LOCK_KEY = 7_205_759_403_792_794
_SET_IDLE_TIMEOUTS = (
    # of a process that is frozen meanwhile
    "set idle_session_timeout = '60s'; set idle_in_transaction_session_timeout = '60s'"
)
_RESET_IDLE_TIMEOUTS = "reset idle_session_timeout; reset idle_in_transaction_session_timeout"

_CREATE_ROLES_SQL = """\
do $$
declare
    wanted text;
begin
    if not exists (select from pg_roles where rolname = 'livedex_app') then
        create role livedex_app login nosuperuser nobypassrls nocreatedb nocreaterole;
    end if;
    if not exists (select from pg_roles where rolname = 'livedex_definer') then
        create role livedex_definer nologin nosuperuser nobypassrls nocreatedb nocreaterole;
    end if;
    foreach wanted in array array['livedex_app', 'livedex_definer'] loop
        if not (select rolsuper from pg_roles where rolname = current_user)
           and not (pg_has_role(current_user, wanted, 'usage') and pg_has_role(current_user,
             wanted, 'set')) then
            execute format('grant %I to %I with inherit true, set true', wanted, current_user);
        end if;
    end loop;
end $$;
"""
BOOTSTRAP_SQL = f"""\
{_CREATE_ROLES_SQL}create extension if not exists vector;
grant usage on schema public to livedex_app, livedex_definer;
create table if not exists migrations (
    number     integer primary key,
    name       text not null,
    sha256     text not null,
    applied_at timestamptz not null default now()
);
grant select on migrations to livedex_app;
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema.

    Attributes:
        number: its place, from 1.
        name: of its file.
    """

    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Hash of its text: a migration is never changed once it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def all_migrations() -> list[Migration]:
    """Every migration, in order."""
    files = sorted(
        (f for f in resources.files("livedex.migrations").iterdir() if f.name.endswith(".sql")),
        key=lambda f: f.name,
    )
    return [Migration(int(f.name.split("_")[0]), f.name, f.read_text("utf-8")) for f in files]


@cache
def granted_privileges(roles: DatabaseRoles) -> SchemaPrivileges:
    """Return what all migrations together grant."""
    return SchemaPrivileges(
        [roles.render(script) for script in [BOOTSTRAP_SQL, *(m.sql for m in all_migrations())]],
        roles,
    )


@asynccontextmanager
async def open_connection(url: str, setting: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of one's own for as long as the block lasts.

    Args:
        setting: where the URL comes from, for the error.

    Raises:
        ConfigError: the database does not answer.
    """
    try:
        connection = await connect(url)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as exc:
        why = str(exc) if isinstance(exc, asyncpg.PostgresError) else type(exc).__name__
        raise ConfigError(
            f"the database does not answer ({why}) at {database_location(url)}: check {setting}"
        ) from exc
    try:
        yield connection
    finally:
        await connection.close()


async def migrate(
    connection: asyncpg.Connection, roles: DatabaseRoles = DEFAULT_ROLES
) -> list[str]:
    """Apply what is missing, and grant again what got lost.

    Args:
        connection: as the owner, outside a transaction.

    Returns:
        The names of the migrations applied now, in order.

    Raises:
        ConfigError: PostgreSQL or pgvector is too old, the role may not do it, or an applied
        migration was changed.
    """
    check_server_version(connection)
    await connection.execute("select pg_advisory_lock($1::bigint)", MIGRATION_LOCK_KEY)
    try:
        await connection.execute(_SET_IDLE_TIMEOUTS)
        return await _apply(connection, roles)
    except asyncpg.InsufficientPrivilegeError as exc:
        raise ConfigError(await _permission_advice(connection, roles, exc)) from exc
    except asyncpg.UndefinedFileError as exc:
        raise ConfigError(
            "this PostgreSQL has no pgvector: install the extension `vector`, 0.8 or later"
        ) from exc
    finally:
        await connection.execute("select pg_advisory_unlock($1::bigint)", MIGRATION_LOCK_KEY)
        await connection.execute(_RESET_IDLE_TIMEOUTS)


async def _apply(connection: asyncpg.Connection, roles: DatabaseRoles) -> list[str]:
    if not await is_bootstrapped(connection, roles):
        await connection.execute("select set_config('search_path', 'public', false)")
        await connection.execute(roles.render(BOOTSTRAP_SQL))
    await set_search_path(connection)
    await check_server(connection)
    done = {
        r["number"]: r["sha256"]
        for r in await connection.fetch("select number, sha256 from migrations")
    }
    applied = []
    for migration in all_migrations():
        if migration.number in done:
            if done[migration.number] != migration.sha256:
                raise ConfigError(
                    f"{migration.name} was changed after it was applied: restore it and add "
                    "a new migration instead"
                )
            continue
        async with connection.transaction():
            await connection.execute(roles.render(migration.sql))
            await connection.execute(
                "insert into migrations (number, name, sha256) values ($1, $2, $3)",
                migration.number,
                migration.name,
                migration.sha256,
            )
        applied.append(migration.name)
    await _restore_privileges(connection, roles)
    return applied


async def _restore_privileges(connection: asyncpg.Connection, roles: DatabaseRoles) -> None:
    """Grant what a restored dump, or another prefix of the roles, lacks.

    Raises:
        ConfigError: this role may not grant it; the message has the statement.
    """
    missing = await granted_privileges(roles).missing(connection)
    for statement in missing:
        try:
            await connection.execute(statement)
        except asyncpg.InsufficientPrivilegeError as exc:
            raise ConfigError(
                f"this role may not mend the rights on the schema ({exc}): run as its owner "
                f"or an administrator: {statement};"
            ) from exc
        log.info("granted again: %s", " ".join(statement.split())[:200])
    # a grant that is not one's own to give is a mere warning
    if missing and (left := await granted_privileges(roles).missing(connection)):
        raise ConfigError(
            f"this role may not mend the rights on the schema: run as an administrator: {left[0]};"
        )


async def _permission_advice(
    connection: asyncpg.Connection, roles: DatabaseRoles, exc: Exception
) -> str:
    """What to do where this role may not migrate."""
    taken = await connection.fetch(
        "select rolname::text as name from pg_roles where rolname = any ($1) and not "
        "pg_has_role(current_user, rolname, 'set')",
        [roles.application, roles.definer],
    )
    if taken:
        names, user = (
            ", ".join(row["name"] for row in taken),
            await connection.fetchval("select current_user::text"),
        )
        return (
            f"the roles {names} are there and {user} may not use them, for another "
            "installation on this server made them: set LIVEDEX_ROLE_PREFIX"
            f' to a name of your own, or let an administrator run: grant {names} to "{user}" '
            "with inherit true, set true;"
        )
    return (
        f"this role may not migrate ({exc}): use an owner's URL, or run the output of `livedex "
        "migrate --sql`"
    )


async def check_server(connection: asyncpg.Connection) -> None:
    """Refuse a PostgreSQL or pgvector that is too old, and warn of a pgvector with known faults.

    Raises:
        ConfigError: one is too old.
    """
    check_server_version(connection)
    if problem := await check_pgvector_version(connection):
        log.warning("%s", problem)


async def is_bootstrapped(
    connection: asyncpg.Connection, roles: DatabaseRoles = DEFAULT_ROLES
) -> bool:
    """Whether roles, extension and the table of migrations are there."""
    found = await connection.fetchval(
        "select to_regclass('public.migrations') is not null and (select count(*) = 2 from "
        "pg_catalog.pg_roles where rolname = any ($1))",
        [roles.application, roles.definer],
    )
    return bool(found) and await pgvector_schema(connection) is not None


async def check_privileges(connection: asyncpg.Connection, roles: DatabaseRoles) -> None:
    """Refuse a schema that lacks rights, for a process that may not mend them.

    Raises:
        ConfigError: it does; the message has the first statement that mends it.
    """
    try:
        missing = await granted_privileges(roles).missing(connection)
    except MissingRolesError:
        raise ConfigError(
            f"the role {roles.application} or {roles.definer} is not there: run `livedex "
            "migrate` as the owner"
        ) from None
    if missing:
        raise ConfigError(
            "the schema lacks rights, as after a restore: run `livedex migrate` as the "
            f"owner, which does: {missing[0]}; …"
        )
