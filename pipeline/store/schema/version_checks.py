"""Required versions of PostgreSQL and pgvector, and known bugs of pgvector."""

from __future__ import annotations

import asyncpg

from livedex.pipeline.errors import ConfigError

MIN_SERVER_VERSION = 16
MIN_VECTOR_VERSION = (0, 8, 0)
_KNOWN_PGVECTOR_BUGS = (
    ((0, 8, 2), "a parallel build of an HNSW index may write past its memory"),
    ((0, 8, 3), "vacuum may damage an HNSW index"),
    ((0, 8, 4), "vacuum may leave an HNSW graph unrepaired, and inserts beside it may fail"),
)
"""Known bugs with the version that fixes each. Source: pgvector's CHANGELOG."""


def check_server_version(connection: asyncpg.Connection) -> None:
    """Check the version of PostgreSQL.

    Args:
        connection: to the server.

    Raises:
        ConfigError: it is too old.
    """
    major = connection.get_server_version()[0]
    if major < MIN_SERVER_VERSION:
        raise ConfigError(
            f"PostgreSQL {major} is too old: Livedex needs {MIN_SERVER_VERSION} or later"
        )


async def pgvector_schema(connection: asyncpg.Connection) -> str | None:
    """Return the schema of the extension pgvector; None: not installed."""
    found: str | None = await connection.fetchval(
        "select n.nspname::text from pg_catalog.pg_extension e join pg_catalog.pg_namespace "
        "n on n.oid = e.extnamespace where e.extname = 'vector'"
    )
    return found


async def set_search_path(connection: asyncpg.Connection) -> str:
    """Set `search_path` of a session so that it finds the tables and pgvector; return pgvector's
    schema.

    Args:
        connection: of the session.

    Raises:
        ConfigError: pgvector is not installed.
    """
    schema = await pgvector_schema(connection)
    if schema is None:
        raise ConfigError(
            "pgvector is not installed in the database: run `livedex migrate` as its owner, or "
            "`create extension vector` as an administrator"
        )
    if schema != "public":
        await connection.execute(
            "select pg_catalog.set_config('search_path', 'public, ' || "
            "pg_catalog.quote_ident($1), false)",
            schema,
        )
    return schema


async def check_pgvector_version(connection: asyncpg.Connection) -> str | None:
    """Return a warning about known bugs of the installed pgvector; None: none are known.

    Args:
        connection: to a database with pgvector.

    Raises:
        ConfigError: pgvector is too old.
    """
    row = await connection.fetchrow(
        "select e.extversion as schema, coalesce(a.default_version, e.extversion) as library "
        "from pg_catalog.pg_extension e"
        " left join pg_catalog.pg_available_extensions a on a.name = e.extname where "
        "e.extname = 'vector'"
    )
    if row is None:
        return None
    if parse_version(row["schema"]) < MIN_VECTOR_VERSION:
        raise ConfigError(
            f"pgvector {row['schema']} is too old: Livedex needs 0.8 or later (install it, "
            "then `alter extension vector update`)"
        )
    return pgvector_problem(row["library"])


def pgvector_problem(version: str) -> str | None:
    """Return the known bugs of a version of pgvector, and what to do; None: none are known."""
    faults = [fault for mended, fault in _KNOWN_PGVECTOR_BUGS if parse_version(version) < mended]
    if not faults:
        return None
    return (
        f"pgvector {version} has bugs that 0.8.4 fixes: {'; '.join(faults)}. "
        "Install 0.8.4 or later, run `alter extension vector update`,"
        " and then `reindex index concurrently` for each index vectors_N_by_nearness"
    )


def parse_version(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, such as (0, 8, 4)."""
    numbers: list[int] = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return (*numbers, *[0] * (3 - len(numbers)))
