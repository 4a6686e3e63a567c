"""Bring the schema up to date: numbered `.sql` files, each run once in a transaction of its own.

Two processes that start at once are safe: the second waits for the first one's advisory lock and then finds nothing to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources

import asyncpg

from pipeline.errors import ConfigError

APPLICATION_ROLE = "livedex_app"
MIN_SERVER_VERSION = 160_000
_LOCK_KEY = 7_205_759_403_792_794

PREPARE = f"""\
do $$
begin
    if not exists (select from pg_roles where rolname = '{APPLICATION_ROLE}') then
        create role {APPLICATION_ROLE} login nosuperuser nobypassrls nocreatedb nocreaterole;
    end if;
    if not exists (select from pg_roles where rolname = 'livedex_definer') then
        create role livedex_definer nologin nosuperuser nobypassrls nocreatedb nocreaterole;
    end if;
    if not (select rolsuper from pg_roles where rolname = current_user) then
        execute format('grant livedex_definer to %I with inherit true, set true', current_user);
        execute format('grant {APPLICATION_ROLE} to %I with inherit true, set true', current_user);
    end if;
end $$;
create extension if not exists vector;
grant usage on schema public to {APPLICATION_ROLE}, livedex_definer;
create table if not exists migrations (
    number     integer primary key,
    name       text not null,
    sha256     text not null,
    applied_at timestamptz not null default now()
);
grant select on migrations to {APPLICATION_ROLE};
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


def all_migrations() -> list[Migration]:
    """Every migration, in order."""
    files = sorted((f for f in resources.files("migrations").iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [Migration(int(f.name.split("_")[0]), f.name, f.read_text("utf-8")) for f in files]


def statements() -> str:
    """Everything that `migrate` would run on an empty database, for administrators who run it by other means."""
    parts = [f"-- prepare\n{PREPARE}"]
    for m in all_migrations():
        record = f"insert into migrations (number, name, sha256) values ({m.number}, '{m.name}', '{m.sha256}');\n"
        parts.append(f"-- {m.name}\nbegin;\n{m.sql}{record}commit;\n")
    return "\n".join(parts)


@asynccontextmanager
async def connected(url: str, setting: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection of one's own for as long as the block lasts.

    Args:
        setting: where the URL comes from, for the error.

    Raises:
        ConfigError: the database does not answer.
    """
    try:
        connection = await asyncpg.connect(url, timeout=10)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as exc:
        raise ConfigError(f"the database does not answer ({type(exc).__name__}): check {setting}") from exc
    try:
        yield connection
    finally:
        await connection.close()


async def migrate(connection: asyncpg.Connection) -> list[str]:
    """Apply what is missing.

    Args:
        connection: as the owner, outside a transaction.

    Returns:
        The names of the migrations applied now, in order.

    Raises:
        ConfigError: PostgreSQL or pgvector is too old, the role may not do it, or an applied migration was changed.
    """
    if connection.get_server_version()[0] * 10_000 < MIN_SERVER_VERSION:
        raise ConfigError(f"PostgreSQL {connection.get_server_version()[0]} is too old: Livedex needs 16 or later")
    await connection.execute("select pg_advisory_lock($1::bigint)", _LOCK_KEY)
    try:
        return await _apply(connection)
    except asyncpg.InsufficientPrivilegeError as exc:
        raise ConfigError(f"this role may not migrate ({exc}): use an owner's URL, or run the output of `livedex migrate --sql`") from exc
    except asyncpg.UndefinedFileError as exc:
        raise ConfigError("this PostgreSQL has no pgvector: install the extension `vector`, 0.8 or later") from exc
    finally:
        await connection.execute("select pg_advisory_unlock($1::bigint)", _LOCK_KEY)


async def _apply(connection: asyncpg.Connection) -> list[str]:
    if not await is_prepared(connection):
        await connection.execute(PREPARE)
    version = str(await connection.fetchval("select extversion from pg_extension where extname = 'vector'"))
    if tuple(int(part) for part in version.split(".")[:2]) < (0, 8):
        raise ConfigError(f"pgvector {version} is too old: Livedex needs 0.8 or later (`alter extension vector update`)")
    done = {r["number"]: r["sha256"] for r in await connection.fetch("select number, sha256 from migrations")}
    applied = []
    for migration in all_migrations():
        if migration.number in done:
            if done[migration.number] != migration.sha256:
                raise ConfigError(f"{migration.name} was changed after it was applied: restore it and add a new migration instead")
            continue
        async with connection.transaction():
            await connection.execute(migration.sql)
            await connection.execute(
                "insert into migrations (number, name, sha256) values ($1, $2, $3)", migration.number, migration.name, migration.sha256
            )
        applied.append(migration.name)
    return applied


async def is_prepared(connection: asyncpg.Connection) -> bool:
    """Whether roles, extension and the table of migrations are there."""
    return bool(
        await connection.fetchval(
            "select to_regclass('public.migrations') is not null and exists (select from pg_extension where extname = 'vector')"
        )
    )
