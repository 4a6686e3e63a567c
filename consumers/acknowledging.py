"""What the workers of all stages have ended is deleted from the queue in one statement, and not by each worker for itself.

A worker holds no connection: each statement takes one from the pool for as long as it lasts, so that dozens of workers need a few.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from faststream_outbox.client import OutboxClient
from sqlalchemy import Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from pipeline.stages.together import Together

Leased: TypeAlias = tuple[int, UUID]  # a row, and the lease that it is held by
_Ended: TypeAlias = tuple[Leased, ...]
_ROWS_TOGETHER = 256
T = TypeVar("T")


class Unconnected:
    """Stands where a worker would hold a connection of its own."""


@asynccontextmanager
async def no_connection_of_its_own(engine: AsyncEngine | None) -> AsyncIterator[Mapping[str, Any]]:
    """What a worker of the queue gets: nothing to write with, since the client takes a connection for each statement."""
    yield {"writer_conn": Unconnected()}


class AcknowledgingClient(OutboxClient):
    """Gathers what is deleted while another statement is under way; an idle queue waits for nothing.

    Args:
        engine: connections of the broker.
        table: the queue.
    """

    def __init__(self, engine: AsyncEngine, table: Table) -> None:
        super().__init__(engine, table)
        self._pool = engine
        self._delete: Together[_Ended, set[Leased]] = Together(self._delete_all, size=len, most=_ROWS_TOGETHER, most_size=_ROWS_TOGETHER)

    async def delete_batch_with_lease(self, conn: object, pairs: Sequence[Leased]) -> set[Leased]:
        """Delete rows that are still held by these leases.

        Returns:
            Those that were there.
        """
        return await self._delete(tuple(pairs))

    async def delete_with_lease(self, conn: object, message_id: int, acquired_token: UUID, **more: Any) -> bool:
        """Delete one row that is still held by its lease; whether it was there."""
        delete = super().delete_with_lease
        return await self._borrowing(lambda connection: delete(connection, message_id, acquired_token, **more))

    async def mark_pending_with_lease(self, conn: object, message_id: int, acquired_token: UUID, **more: Any) -> bool:
        """Give a row back for later that is still held by its lease; whether it was."""
        mark = super().mark_pending_with_lease
        return await self._borrowing(lambda connection: mark(connection, message_id, acquired_token, **more))

    async def _delete_all(self, asked: Sequence[_Ended]) -> list[set[Leased]]:
        every, delete = [pair for pairs in asked for pair in pairs], super().delete_batch_with_lease
        deleted = await self._borrowing(lambda connection: delete(connection, every))
        return [deleted.intersection(pairs) for pairs in asked]

    async def _borrowing(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Run one statement on a connection of the pool; on a new one where the server had closed that. Leases make it the same twice."""
        for is_last in (False, True):
            try:
                async with self._pool.connect() as connection:
                    return await work(await connection.execution_options(isolation_level="AUTOCOMMIT"))
            except DBAPIError as exc:
                if is_last or not exc.connection_invalidated:
                    raise
        raise AssertionError("unreachable")
