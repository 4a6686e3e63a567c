"""A database that was read-only for a while: sessions that began meanwhile stay so, and are used
no more.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from livedex.consumers.postgres.queue_engine import open_queue_engine
from livedex.pipeline.errors import OutageError
from livedex.pipeline.store.database import open_database
from livedex.pipeline.store.installation_status import InstallationStatus

_ENDED = (
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
    "and pid <> pg_backend_pid()"
)
_SESSIONS = 4


async def test_writes_work_again_though_nobody_ends_the_sessions(
    owner_url: str, owner: asyncpg.Connection
) -> None:
    name = await owner.fetchval("select current_database()")
    async with (
        open_database(owner_url, min_size=_SESSIONS, max_size=_SESSIONS) as database,
        open_queue_engine(owner_url, _SESSIONS) as engine,
    ):
        operations = InstallationStatus(database)

        async def write() -> None:
            async with engine.begin() as connection:
                await connection.execute(text("delete from queue"))

        await owner.execute(f'alter database "{name}" set default_transaction_read_only = on')
        await owner.execute(_ENDED)
        # the first finds that the sessions were ended, the second opens those that are read-only
        for _ in range(2):
            await asyncio.gather(
                *(operations.health() for _ in range(_SESSIONS)), return_exceptions=True
            )
            told = await asyncio.gather(
                *(write() for _ in range(_SESSIONS)), return_exceptions=True
            )
            assert all(isinstance(each, SQLAlchemyError) for each in told)
        with pytest.raises(OutageError, match="read-only"):
            await operations.set_health("x", ok=True)
        await asyncio.gather(*(operations.health() for _ in range(_SESSIONS)))

        await owner.execute(f'alter database "{name}" reset default_transaction_read_only')
        await asyncio.gather(
            *(operations.set_health("x", ok=True) for _ in range(_SESSIONS)), return_exceptions=True
        )
        await asyncio.gather(*(write() for _ in range(_SESSIONS)), return_exceptions=True)
        for _ in range(2):
            await asyncio.gather(*(operations.set_health("x", ok=True) for _ in range(_SESSIONS)))
            await asyncio.gather(*(write() for _ in range(_SESSIONS)))
