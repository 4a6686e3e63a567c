"""Acknowledge rows of the queue: those that all workers have ended are deleted in one statement,
over whichever connection works.

Acknowledging depends on no connection of a worker: a session that was ended (failover, an idle
timeout, a restarted pooler) costs another try and no lease. While the database is unavailable it is
retried, and the leases of the rows that wait for it are renewed like those of running work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from faststream_outbox.client import OutboxClient
from sqlalchemy import Table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from livedex.pipeline.runtime.backoff import exponential_backoff_s
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.store.postgres.errors import outage_reason

log = logging.getLogger(__name__)

Leased: TypeAlias = tuple[int, UUID]  # a row, and the lease that it is held by
R = TypeVar("R")
_ROWS_TOGETHER = 256
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 2.0


def queue_outage_cause(error: BaseException) -> str | None:
    """Return why the queue cannot be used now, or None where the error is about a statement; of
    what SQLAlchemy says of its own pool, too.
    """
    cause = outage_reason(error)
    if (
        cause is None
        and isinstance(error, SQLAlchemyError)
        and getattr(error, "orig", None) is None
    ):
        return "the connection was closed"
    return cause


class BatchedAckClient(OutboxClient):
    """Gathers what is deleted while another statement is under way; an idle queue waits for
    nothing.

    Args:
        engine: connections of the broker.
        table: the queue.
    """

    def __init__(self, engine: AsyncEngine, table: Table) -> None:
        super().__init__(engine, table)
        self._stopping = False
        self._waiting: dict[Leased, None] = {}
        self._delete: MicroBatcher[tuple[Leased, ...], set[Leased]] = MicroBatcher(
            self._delete_all, size=len, max_items=_ROWS_TOGETHER, max_size=_ROWS_TOGETHER
        )

    @property
    def leases(self) -> set[UUID]:
        """Return the leases of rows that have ended and are not acknowledged yet."""
        return {token for _, token in self._waiting}

    def stop(self) -> None:
        """Give up from now on when the database is unavailable: what is not acknowledged is
        delivered again and found done.
        """
        self._stopping = True

    async def delete_batch_with_lease(
        self, conn: AsyncConnection | None, pairs: Sequence[Leased]
    ) -> set[Leased]:
        """Delete rows that are still held by these leases; returns once that worked.

        Args:
            conn: ignored.
            pairs: rows and their leases.

        Returns:
            Those that were there. Where an answer was lost, rows that the lost statement deleted
            are missing.
        """
        self._waiting |= dict.fromkeys(pairs)
        try:
            return await self._delete(tuple(pairs))
        finally:
            for pair in pairs:
                self._waiting.pop(pair, None)

    async def delete_with_lease(
        self,
        conn: AsyncConnection | None,
        message_id: int,
        acquired_token: UUID,
        *,
        dlq_payload: Any = None,
    ) -> bool:
        """Delete a row that is still held by this lease; returns once that worked."""
        return bool(await self.delete_batch_with_lease(conn, [(message_id, acquired_token)]))

    async def mark_pending_with_lease(
        self,
        conn: AsyncConnection | None,
        message_id: int,
        acquired_token: UUID,
        *,
        delay_seconds: float,
        attempts_count: int,
        first_attempt_at: datetime,
        last_attempt_at: datetime,
    ) -> bool:
        """Give a row back to be delivered again after a while; returns once that worked."""
        give_back = super().mark_pending_with_lease
        pair = (message_id, acquired_token)
        self._waiting[pair] = None
        try:
            return await self._retried(
                lambda connection: give_back(
                    connection,
                    message_id,
                    acquired_token,
                    delay_seconds=delay_seconds,
                    attempts_count=attempts_count,
                    first_attempt_at=first_attempt_at,
                    last_attempt_at=last_attempt_at,
                )
            )
        finally:
            self._waiting.pop(pair, None)

    async def _delete_all(self, asked: Sequence[tuple[Leased, ...]]) -> list[set[Leased]]:
        delete = super().delete_batch_with_lease
        deleted = await self._retried(
            lambda connection: delete(connection, [pair for pairs in asked for pair in pairs])
        )
        return [deleted.intersection(pairs) for pairs in asked]

    async def _retried(self, work: Callable[[AsyncConnection], Awaitable[R]]) -> R:
        failures = 0
        while True:
            try:
                async with self.engine.connect() as connection:
                    return await work(
                        await connection.execution_options(isolation_level="AUTOCOMMIT")
                    )
            except Exception as exc:
                cause = queue_outage_cause(exc)
                if cause is None or self._stopping:
                    raise
                failures += 1
                if failures == 3:
                    log.warning("what has ended cannot be acknowledged yet: %s", cause)
            if failures > 1:  # the first failure may be the session's alone
                await asyncio.sleep(
                    exponential_backoff_s(_FIRST_WAIT_S, failures - 1, _LONGEST_WAIT_S)
                )
