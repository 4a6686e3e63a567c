"""What workers have ended leaves the queue together, and each of them is told what of its own was
there.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import asyncpg
import pytest
from faststream_outbox.schema import make_outbox_table
from sqlalchemy import MetaData, event
from sqlalchemy.exc import SQLAlchemyError

from livedex.consumers.postgres.acknowledging import BatchedAckClient
from livedex.consumers.postgres.broker import TABLE
from livedex.consumers.postgres.queue_engine import open_queue_engine

WORKERS = 8


async def leased(owner: asyncpg.Connection, count: int) -> list[tuple[int, UUID]]:
    """Rows in the queue, each with the lease that it is held by."""
    rows = await owner.fetch(
        "insert into queue (queue, payload, acquired_token, acquired_at) select 'q', '', "
        "gen_random_uuid(), now() from generate_series(1, $1)"
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
    # taken by somebody else meanwhile
    lost = {number: (number, uuid4()) for number, _ in held[::3]}
    ended = [lost.get(number, (number, token)) for number, token in held]
    statements: list[str] = []
    async with open_queue_engine(owner_url, WORKERS) as engine:
        client = BatchedAckClient(engine, make_outbox_table(MetaData(), TABLE))

        event.listen(
            engine.sync_engine, "before_cursor_execute", lambda *given: statements.append(given[2])
        )
        deleted = await asyncio.gather(
            *(
                client.delete_batch_with_lease(None, ended[3 * n : 3 * n + 3])
                for n in range(WORKERS)
            )
        )
    assert deleted == [set(ended[3 * n + 1 : 3 * n + 3]) for n in range(WORKERS)]
    assert await left(owner) == set(lost)
    assert len(statements) < WORKERS / 2


async def test_sessions_that_were_ended_cost_no_acknowledgement(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    held = await leased(owner, 6)
    async with open_queue_engine(owner_url, 2) as engine:
        client = BatchedAckClient(engine, make_outbox_table(MetaData(), TABLE))
        assert await client.delete_batch_with_lease(None, held[:1]) == set(held[:1])
        await _end_sessions(owner)
        told = await asyncio.gather(
            client.delete_batch_with_lease(None, held[1:3]),
            client.delete_with_lease(None, *held[3]),
        )
        assert told == [set(held[1:3]), True]
        await _end_sessions(owner)
        at = datetime.now(UTC)
        assert await client.mark_pending_with_lease(
            None,
            *held[4],
            delay_seconds=5,
            attempts_count=1,
            first_attempt_at=at,
            last_attempt_at=at,
        )
    rows = await owner.fetch("select id, acquired_token from queue order by id")
    assert [tuple(row) for row in rows] == [(held[4][0], None), held[5]]


async def test_rows_keep_their_leases_through_a_database_outage(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    held = await leased(owner, 2)
    name = await owner.fetchval("select current_database()")
    async with open_queue_engine(owner_url, 2) as engine:
        client = BatchedAckClient(engine, make_outbox_table(MetaData(), TABLE))
        await owner.execute(f'alter database "{name}" set default_transaction_read_only = on')
        await _end_sessions(owner)
        ended = asyncio.create_task(client.delete_batch_with_lease(None, held))
        await asyncio.sleep(0.3)
        assert not ended.done() and client.leases == {token for _, token in held}, (
            "so that they are renewed"
        )
        await owner.execute(f'alter database "{name}" reset default_transaction_read_only')
        await _end_sessions(owner)
        assert await asyncio.wait_for(ended, 20) == set(held)
        assert client.leases == set() and await left(owner) == set()


async def test_a_process_that_ends_does_not_wait_for_the_database(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    held = await leased(owner, 1)
    name = await owner.fetchval("select current_database()")
    await owner.execute(f'alter database "{name}" set default_transaction_read_only = on')
    async with open_queue_engine(owner_url, 1) as engine:
        client = BatchedAckClient(engine, make_outbox_table(MetaData(), TABLE))
        client.stop()
        with pytest.raises(SQLAlchemyError):
            await client.delete_batch_with_lease(None, held)


async def _end_sessions(owner: asyncpg.Connection) -> None:
    await owner.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = "
        "current_database() and pid <> pg_backend_pid()"
    )
    while await owner.fetchval(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> "
        "pg_backend_pid()"
    ):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("count", [0, 1])
async def test_little_is_deleted_as_well(
    owner_url: str, owner: asyncpg.Connection, count: int
) -> None:
    held = await leased(owner, 1)
    async with open_queue_engine(owner_url, 1) as engine:
        client = BatchedAckClient(engine, make_outbox_table(MetaData(), TABLE))
        assert await client.delete_batch_with_lease(None, held[:count]) == set(held[:count])
    assert len(await left(owner)) == 1 - count
