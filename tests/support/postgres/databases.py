"""Databases of tests: each is a copy of one that was migrated once."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import asyncpg

from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.schema.migrator import migrate

TEMPLATE_DATABASE = f"livedex_template{os.environ.get('PYTEST_XDIST_WORKER', '')}"
_NUMBERS = itertools.count()
T = TypeVar("T")


def with_database(url: str, name: str) -> str:
    """The URL of another database on the same server."""
    head, _, rest = url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{rest}" if rest else "")


async def make_template(url: str) -> None:
    """Make the database that the others are copies of.

    Args:
        url: of the server, as a role that may do everything.
    """
    admin = await asyncpg.connect(url)
    try:
        await admin.execute(f"drop database if exists {TEMPLATE_DATABASE}")
        await admin.execute(f"create database {TEMPLATE_DATABASE}")
    finally:
        await admin.close()
    connection = await asyncpg.connect(with_database(url, TEMPLATE_DATABASE))
    try:
        await migrate(connection)
    finally:
        await connection.close()


async def disable_durability(url: str) -> None:
    """Do not wait for the disk: a database a test lives for seconds, and no test here pulls the
    plug.
    """
    connection = await asyncpg.connect(url)
    try:
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            await connection.execute(f"alter system set {name} = off")
        await connection.execute("select pg_reload_conf()")
    finally:
        await connection.close()


@asynccontextmanager
async def new_database(server_url: str) -> AsyncIterator[str]:
    """A migrated, empty database for as long as the block lasts: its URL, as its owner."""
    name = f"livedex_test_{os.getpid()}_{next(_NUMBERS)}"
    admin = await asyncpg.connect(server_url)
    try:
        await admin.execute(
            f"create database {name} template {TEMPLATE_DATABASE} strategy file_copy"
        )  # half the time of the default, for one of this size
        yield with_database(server_url, name)
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


@contextmanager
def read_only_database(
    server_url: str, fill: Callable[[Database], Awaitable[T]]
) -> Iterator[tuple[str, T]]:
    """A database for several tests that only read: filled once, and from then on PostgreSQL refuses
    whatever would write there.

    Yields:
        Its URL, as its owner, and what `fill` returned.
    """
    with asyncio.Runner() as runner:
        context = new_database(server_url)
        url = runner.run(context.__aenter__())
        try:
            yield url, runner.run(_filled(url, fill))
        finally:
            runner.run(context.__aexit__(None, None, None))


async def _filled(url: str, fill: Callable[[Database], Awaitable[T]]) -> T:
    async with open_database(url) as database:
        made = await fill(database)
    owner = await asyncpg.connect(url)
    try:
        name = await owner.fetchval("select current_database()")
        await owner.execute(f"alter database {name} set default_transaction_read_only = on")
    finally:
        await owner.close()
    return made
