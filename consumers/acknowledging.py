"""What the workers of all stages have ended is deleted from the queue in one statement, and not by each worker for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

from faststream_outbox.client import OutboxClient
from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from pipeline.stages.together import Together

Leased: TypeAlias = tuple[int, UUID]  # a row, and the lease that it is held by
_Ended: TypeAlias = tuple[AsyncConnection | None, tuple[Leased, ...]]
_ROWS_TOGETHER = 256


class AcknowledgingClient(OutboxClient):
    """Gathers what is deleted while another statement is under way; an idle queue waits for nothing.

    Args:
        engine: connections of the broker.
        table: the queue.
    """

    def __init__(self, engine: AsyncEngine, table: Table) -> None:
        super().__init__(engine, table)
        self._delete: Together[_Ended, set[Leased]] = Together(
            self._delete_all, size=lambda ended: len(ended[1]), most=_ROWS_TOGETHER, most_size=_ROWS_TOGETHER
        )

    async def delete_batch_with_lease(self, conn: AsyncConnection | None, pairs: Sequence[Leased]) -> set[Leased]:
        """Delete rows that are still held by these leases.

        Args:
            conn: the worker's own, which it does not use meanwhile.

        Returns:
            Those that were there.
        """
        return await self._delete((conn, tuple(pairs)))

    async def _delete_all(self, asked: Sequence[_Ended]) -> list[set[Leased]]:
        deleted = await super().delete_batch_with_lease(asked[0][0], [pair for _, pairs in asked for pair in pairs])
        return [deleted.intersection(pairs) for _, pairs in asked]
