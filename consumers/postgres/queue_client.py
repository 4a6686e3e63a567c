"""How rows of the queue are leased: by tenants in turn, so that nobody's few rows stand behind
somebody's thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import orjson
from faststream_outbox.message import OutboxInnerMessage
from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from livedex.consumers.postgres.acknowledging import BatchedAckClient
from livedex.consumers.postgres.row_scheduler import TENANT_HEADER, RowScheduler
from livedex.pipeline.store.postgres.statements import sql


def tenant_of(message: OutboxInnerMessage) -> str:
    """Return the tenant of a row; '' where it does not say."""
    return str((message.headers or {}).get(TENANT_HEADER, ""))


class QueueClient(BatchedAckClient):
    """Leases rows by tenants in turn; see `fetch_queue` in `pipeline/store/sql/queue.sql`.

    Args:
        engine: connections of the broker.
        table: the queue.

    Attributes:
        turns: of each stage that is consumed, by its topic.
    """

    def __init__(self, engine: AsyncEngine, table: Table) -> None:
        super().__init__(engine, table)
        self.turns: dict[str, RowScheduler] = {}

    async def fetch(
        self,
        conn: AsyncConnection | None,
        queues: Sequence[str],
        *,
        limit: int,
        lease_ttl_seconds: float,
    ) -> list[OutboxInnerMessage]:
        """Lease rows of one topic.

        Args:
            conn: to read with.
            queues: the topic, alone.
            limit: rows at most, >= 1.
            lease_ttl_seconds: after which a lease has run out, > 0.

        Returns:
            The rows, due first.
        """
        assert conn is not None
        (topic,) = queues
        turns = self.turns[topic]
        held = turns.held
        given = (
            topic,
            limit,
            lease_ttl_seconds,
            uuid4(),
            list(held),
            list(held.values()),
            turns.share,
        )
        async with conn.begin():
            rows = (await conn.exec_driver_sql(sql("fetch_queue"), given)).mappings().all()
        found = [
            OutboxInnerMessage(**{**row, "headers": orjson.loads(row["headers"] or "null")})
            for row in rows
        ]
        for message in found:
            turns.taken(tenant_of(message))
        return sorted(found, key=lambda message: (message.next_attempt_at, message.id))
