"""What an operator asks: backlog, health, states; and the request that makes the watchers look at
their folders.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from livedex.pipeline.events.consumer_lag import StageLag
from livedex.pipeline.flow import STAGES
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetterStore
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.subscriber_store import SubscriberStore

HEALTH_EXPIRES_S = 60.0
"""That a component is away counts for so long after it was last said; what is said of a source
counts until the next word on it.
"""


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """How a component is.

    Attributes:
        state: `ok` or `down`.
        since: when it became so.
    """

    state: str
    detail: str | None
    since: datetime


class QueueBacklog:
    """`livedex.pipeline.events.consumer_lag.ConsumerLag` on the queue in PostgreSQL.

    A mark is a moment.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self) -> dict[str, StageLag]:
        async with self._database.system("backlog") as connection:
            rows = {row["queue"]: row for row in await connection.fetch(sql("queue_backlog"))}
        return {
            stage.name: StageLag(
                rows[stage.takes]["waiting"], max(0.0, rows[stage.takes]["oldest_s"])
            )
            if stage.takes in rows
            else StageLag()
            for stage in STAGES
        }

    async def mark(self) -> datetime:
        return datetime.now(UTC)

    async def left(self, mark: object) -> int:
        assert isinstance(mark, datetime)
        async with self._database.system("queue") as connection:
            return int(
                await connection.fetchval(sql("queued_since"), mark.astimezone(UTC).isoformat())
            )


class InstallationStatus:
    """Questions about the whole installation, over all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._letters = DeadLetterStore(database)
        self._subscribers = SubscriberStore(database)

    async def health(self) -> dict[str, ComponentHealth]:
        """Every component that ever said how it is."""
        async with self._database.system("health") as connection:
            rows = await connection.fetch(sql("read_health"), HEALTH_EXPIRES_S)
        return {
            row["component"]: ComponentHealth(row["state"], row["detail"], row["since"])
            for row in rows
        }

    async def set_health(self, component: str, *, ok: bool, detail: str | None = None) -> None:
        """Write down how a component is, for whoever asks from another process."""
        async with self._database.system("health") as connection:
            await connection.execute(
                sql("set_health"), component, "ok" if ok else "down", detail, HEALTH_EXPIRES_S
            )

    async def probe_writes(self) -> None:
        """Return when the database takes writes, as far as can be told without writing.

        Raises:
            OutageError: it does not.
        """
        async with self._database.system("probe the database") as connection:
            await connection.execute(sql("probe_writes"))

    async def clear_health(self) -> None:
        """Forget what an earlier run said."""
        async with self._database.system("health") as connection:
            await connection.execute(sql("clear_health"))

    async def has_text_search_config(self, name: str) -> bool:
        """Whether PostgreSQL has a text search configuration of this name."""
        async with self._database.system("text search configuration") as connection:
            return bool(await connection.fetchval(sql("has_language"), name))

    async def release_leases(self) -> None:
        """Give back the records and the notices of processes that are gone; only for the one
        process of an installation, at its start.
        """
        async with self._database.system("release leases") as connection:
            await connection.execute(sql("release_leases"))
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "release notices") as connection:
                await connection.execute(sql("release_notices"), tenant_id)

    async def request_scan(self) -> int:
        """Ask the watchers to look at their folders now; the number of the request."""
        async with self._database.system("request reconcile") as connection:
            return int(await connection.fetchval(sql("request_reconcile")))

    async def open_requests(self) -> list[int]:
        """Requests that nobody has handled."""
        async with self._database.system("reconcile requests") as connection:
            return [
                row["request_id"] for row in await connection.fetch(sql("open_reconcile_requests"))
            ]

    async def close_requests(self, requests: list[int], detail: str) -> None:
        """Note that the folders were looked at."""
        async with self._database.system("reconcile requests") as connection:
            await connection.execute(sql("close_reconcile_requests"), requests, detail)
            await connection.execute(sql("clear_reconcile_requests"))

    async def is_scan_done(self, request: int) -> bool:
        """Whether the watchers have looked since the request."""
        async with self._database.system("reconcile request") as connection:
            return bool(await connection.fetchval(sql("reconcile_handled"), request))

    async def pending_since(self, moment: datetime) -> int:
        """Documents under way that were accepted at or before a moment."""
        return await self._database.total("pending_since", "pending documents", moment)

    async def document_states(self) -> dict[str, int]:
        """How many documents are in which state."""
        states: Counter[str] = Counter()
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "document states") as connection:
                states.update(
                    {
                        row["state"]: row["count"]
                        for row in await connection.fetch(sql("document_states"), tenant_id)
                    }
                )
        return dict(sorted(states.items()))

    async def pending_notifications(self) -> StageLag | None:
        """What subscribers have still to be told; None where there is no subscriber."""
        subscribers = await self._subscribers.all()
        if not subscribers:
            return None
        return StageLag(
            sum(each.waiting for each in subscribers), max(each.oldest_s for each in subscribers)
        )

    async def dead_letters_without_document(self) -> int:
        """Dead letters that no document is marked by; not what subscribers were not told."""
        return await self._database.total("unmarked_letters", "letters without a document")

    async def count_dead_letters(self) -> int:
        """Dead letters kept."""
        return await self._letters.count()
