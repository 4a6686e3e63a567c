"""A read that takes too long is told as that, with what to ask less of; a database that is frozen
or away is told as an outage.
"""

from __future__ import annotations

import os
import signal

import asyncpg
import pytest

from livedex.pipeline.errors import LivedexError, OutageError, ReadTimeoutError
from livedex.pipeline.http.problems import problem_for_error
from livedex.pipeline.model import DEFAULT_TENANT, Reader
from livedex.pipeline.store.database import Database, open_database

_READER = Reader(DEFAULT_TENANT)


def told(error: LivedexError) -> str:
    answer = problem_for_error(error)
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1
    return bytes(answer.body).decode()


async def read(database: Database, *statements: str) -> None:
    async with database.read_transaction(_READER, "search") as connection:
        for statement in statements:
            await connection.fetch(statement)


@pytest.mark.parametrize(
    "statements",
    [("select pg_sleep(30)",), ("select pg_sleep(0.2)",) * 9],
    ids=["one statement", "together"],
)
async def test_a_slow_read_is_told_with_what_was_too_much(
    owner_url: str, statements: tuple[str, ...]
) -> None:
    async with open_database(owner_url, max_size=1, read_timeout_s=0.5) as database:
        with pytest.raises(ReadTimeoutError) as found:
            await read(database, *statements)
        assert "search: it took more than 0.5 s (LIVEDEX_READ_TIMEOUT_S)" in told(found.value)
        await read(database, "select 1")  # its connection is whole


async def test_a_session_that_is_frozen_or_ended_is_told_as_an_outage(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    if "LIVEDEX_TEST_DATABASE_URL" in os.environ:
        pytest.skip("its processes are not ours")
    async with open_database(owner_url, max_size=1, read_timeout_s=0.5) as database:

        async def read_frozen() -> None:
            async with database.read_transaction(_READER, "search") as connection:
                pid = await connection.fetchval("select pg_backend_pid()")
                os.kill(pid, signal.SIGSTOP)
                frozen.append(pid)
                await connection.fetch("select 1")

        frozen = list[int]()
        try:
            with pytest.raises(OutageError) as found:
                await read_frozen()
        finally:
            os.kill(frozen[0], signal.SIGCONT)
        assert "LIVEDEX_READ_TIMEOUT_S" not in told(found.value)
        with pytest.raises(OutageError):
            await read(database, "select pg_terminate_backend(pg_backend_pid())", "select 1")
        await read(database, "select 1")
