"""Migrations of the schema: numbered `.sql` files, each run once in its own transaction.

Concurrent starts are safe: the second process waits for the advisory lock of the first, and then
finds nothing to do.
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
    # ends the session of a process that freezes during a migration
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
        number: orders the migrations, >= 1.
        name: of its file.
        sql: its text.
    """

    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Return the hash of its text, which detects changes to an applied migration."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def all_migrations() -> list[Migration]:
    """Return all migrations in order."""
    files = sorted(
        (f for f in resources.files("livedex.migrations").iterdir() if f.name.endswith(".sql")),
        key=lambda f: f.name,
    )
    return [Migration(int(f.name.split("_")[0]), f.name, f.read_text("utf-8")) for f in files]


@cache
def granted_privileges(roles: DatabaseRoles) -> SchemaPrivileges:
    """Return the privileges that all migrations together grant."""
    return SchemaPrivileges(
        [roles.render(script) for script in [BOOTSTRAP_SQL, *(m.sql for m in all_migrations())]],
        roles,
    )


@asynccontextmanager
async def open_connection(url: str, setting: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection, and close it at the end of the block.

    Args:
        url: of the database.
        setting: name of the setting that contains the URL, for error messages.

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
    """Apply missing migrations, and restore missing privileges.

    Args:
        connection: as the owner, outside a transaction.
        roles: of the installation.

    Returns:
        The names of the newly applied migrations, in order.

    Raises:
        ConfigError: PostgreSQL or pgvector is too old, the role lacks privileges, or an applied
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
    """Grant privileges that are missing after a restore, or for a new role prefix.

    Raises:
        ConfigError: the role may not grant them; the message contains the statement.
    """
    missing = await granted_privileges(roles).missing(connection)
    for statement in missing:
        try:
            await connection.execute(statement)
        except asyncpg.InsufficientPrivilegeError as exc:
            raise ConfigError(
                f"the role may not restore the privileges on the schema ({exc}): run as its owner "
                f"or an administrator: {statement};"
            ) from exc
        log.info("restored privileges: %s", " ".join(statement.split())[:200])
    # PostgreSQL only warns about a grant that the role may not give, so check again
    if missing and (left := await granted_privileges(roles).missing(connection)):
        raise ConfigError(
            "the role may not restore the privileges on the schema: run as an administrator: "
            f"{left[0]};"
        )


async def _permission_advice(
    connection: asyncpg.Connection, roles: DatabaseRoles, exc: Exception
) -> str:
    """Return what to do if the role may not migrate."""
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
            f"{user} may not use the existing roles {names}, which another installation on this "
            "server created: set LIVEDEX_ROLE_PREFIX to a new prefix, or run as an administrator: "
            f'grant {names} to "{user}" with inherit true, set true;'
        )
    return (
        f"the role may not migrate ({exc}): use an owner's URL, or run the output of `livedex "
        "migrate --sql`"
    )


async def check_server(connection: asyncpg.Connection) -> None:
    """Check the versions of PostgreSQL and pgvector; warn about a pgvector with known bugs.

    Args:
        connection: as any role.

    Raises:
        ConfigError: a version is too old.
    """
    check_server_version(connection)
    if problem := await check_pgvector_version(connection):
        log.warning("%s", problem)


async def is_bootstrapped(
    connection: asyncpg.Connection, roles: DatabaseRoles = DEFAULT_ROLES
) -> bool:
    """Return whether the roles and the table of migrations exist."""
    found = await connection.fetchval(
        "select to_regclass('public.migrations') is not null and (select count(*) = 2 from "
        "pg_catalog.pg_roles where rolname = any ($1))",
        [roles.application, roles.definer],
    )
    return bool(found) and await pgvector_schema(connection) is not None


async def check_privileges(connection: asyncpg.Connection, roles: DatabaseRoles) -> None:
    """Check the privileges on the schema, for a process that cannot restore them.

    Args:
        connection: as the application's role.
        roles: of the installation.

    Raises:
        ConfigError: privileges are missing; the message contains the first missing statement.
    """
    try:
        missing = await granted_privileges(roles).missing(connection)
    except MissingRolesError:
        raise ConfigError(
            f"the role {roles.application} or {roles.definer} does not exist: run `livedex "
            "migrate` as the owner"
        ) from None
    if missing:
        raise ConfigError(
            "privileges on the schema are missing, as after a restore: run `livedex migrate` as "
            f"the owner, which runs: {missing[0]}; …"
        )
