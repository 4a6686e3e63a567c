"""What workers have ended leaves the queue together, and each of them is told what of its own was there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import asyncpg
import pytest
from faststream_outbox.schema import make_outbox_table
from sqlalchemy import MetaData, event

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
    async with open_engine(owner_url, 2) as engine:
        client = AcknowledgingClient(engine, make_outbox_table(MetaData(), TABLE))
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
        deleted = await asyncio.gather(*(client.delete_batch_with_lease(None, ended[3 * n : 3 * n + 3]) for n in range(WORKERS)))
    assert deleted == [set(ended[3 * n + 1 : 3 * n + 3]) for n in range(WORKERS)]
    assert await left(owner) == set(lost)
    assert len(statements) < WORKERS / 2


async def test_connections_that_the_server_closed_are_opened_anew(owner_url: str, owner: asyncpg.Connection) -> None:
    held = await leased(owner, 6)
    async with open_engine(owner_url, 2) as engine:
        client = AcknowledgingClient(engine, make_outbox_table(MetaData(), TABLE))
        await owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'livedex-broker' and datname = current_database()"
        )
        while await owner.fetchval(
            "select count(*) from pg_stat_activity where application_name = 'livedex-broker' and datname = current_database()"
        ):
            await asyncio.sleep(0.01)
        assert await client.delete_batch_with_lease(None, held[:2]) == set(held[:2])
        moment = datetime.now(UTC)
        assert await client.mark_pending_with_lease(
            None, *held[2], delay_seconds=60, attempts_count=1, first_attempt_at=moment, last_attempt_at=moment
        )
        assert await client.delete_with_lease(None, *held[3])
        assert not await client.delete_with_lease(None, held[4][0], uuid4())
    assert await left(owner) == {held[2][0], held[4][0], held[5][0]}


@pytest.mark.parametrize("count", [0, 1])
async def test_little_is_deleted_as_well(owner_url: str, owner: asyncpg.Connection, count: int) -> None:
    held = await leased(owner, 1)
    async with open_engine(owner_url, 1) as engine:
        client = AcknowledgingClient(engine, make_outbox_table(MetaData(), TABLE))
        assert await client.delete_batch_with_lease(None, held[:count]) == set(held[:count])
    assert len(await left(owner)) == 1 - count
