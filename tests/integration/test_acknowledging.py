"""What workers have ended leaves the queue together, and each of them is told what of its own was there."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import asyncpg
import pytest
from faststream_outbox.schema import make_outbox_table
from sqlalchemy import MetaData, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from consumers.acknowledging import AcknowledgingClient
from consumers.postgres import TABLE
from consumers.queue_engine import open_engine

WORKERS = 8


async def leased(owner: asyncpg.Connection, count: int) -> list[tuple[int, UUID]]:
    """Rows in the queue, each with the lease that it is held by."""
    rows = await owner.fetch(
        "insert into queue (queue, payload, acquired_token, acquired_at) select 'q', '', gen_random_uuid(), now() from generate_series(1, $1)"
        " returning id, acquired_token",
        count,
    )
    return [(row["id"], row["acquired_token"]) for row in rows]


async def left(owner: asyncpg.Connection) -> set[int]:
    return {row["id"] for row in await owner.fetch("select id from queue")}


async def test_workers_that_end_at_the_same_time_share_a_statement_and_lost_leases_are_told_apart(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    held = await leased(owner, 3 * WORKERS)
    lost = {number: (number, uuid4()) for number, _ in held[::3]}  # taken by somebody else meanwhile
    ended = [lost.get(number, (number, token)) for number, token in held]
    statements: list[str] = []
    async with open_engine(owner_url, WORKERS) as engine:
        client = AcknowledgingClient(engine, make_outbox_table(MetaData(), TABLE))

        async def worker(n: int) -> set[tuple[int, UUID]]:
            async with engine.connect() as connection:
                own = await connection.execution_options(isolation_level="AUTOCOMMIT")
                everybody.release()
                await here.wait()
                return await client.delete_batch_with_lease(own, ended[3 * n : 3 * n + 3])

        everybody, here = asyncio.Semaphore(0), asyncio.Event()
        work = [asyncio.create_task(worker(n)) for n in range(WORKERS)]
        for _ in range(WORKERS):
            await everybody.acquire()
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
        here.set()
        deleted = await asyncio.gather(*work)
    assert deleted == [set(ended[3 * n + 1 : 3 * n + 3]) for n in range(WORKERS)]
    assert await left(owner) == set(lost)
    assert len(statements) < WORKERS / 2


async def test_a_worker_whose_connection_is_gone_takes_nothing_from_the_others(owner_url: str, owner: asyncpg.Connection) -> None:
    held = await leased(owner, 4)
    async with open_engine(owner_url, 2) as engine:
        client = AcknowledgingClient(engine, make_outbox_table(MetaData(), TABLE))
        async with engine.connect() as good, engine.connect() as bad:
            await bad.execution_options(isolation_level="AUTOCOMMIT")
            own = await good.execution_options(isolation_level="AUTOCOMMIT")
            pid = await _pid(bad)
            await owner.execute("select pg_terminate_backend($1)", pid)
            while await owner.fetchval("select count(*) from pg_stat_activity where pid = $1", pid):
                await asyncio.sleep(0.01)
            told = await asyncio.gather(
                client.delete_batch_with_lease(bad, held[:2]), client.delete_batch_with_lease(own, held[2:]), return_exceptions=True
            )
    assert isinstance(told[0], SQLAlchemyError)
    assert told[1] == set(held[2:])
    assert await left(owner) == {number for number, _ in held[:2]}, "whose lease runs out, and who are delivered again"


async def _pid(connection: AsyncConnection) -> int:
    return int((await connection.exec_driver_sql("select pg_backend_pid()")).scalar_one())


@pytest.mark.parametrize("count", [0, 1])
async def test_little_is_deleted_as_well(owner_url: str, owner: asyncpg.Connection, count: int) -> None:
    held = await leased(owner, 1)
    async with open_engine(owner_url, 1) as engine, engine.connect() as connection:
        own = await connection.execution_options(isolation_level="AUTOCOMMIT")
        client = AcknowledgingClient(engine, make_outbox_table(MetaData(), TABLE))
        assert await client.delete_batch_with_lease(own, held[:count]) == set(held[:count])
    assert len(await left(owner)) == 1 - count
