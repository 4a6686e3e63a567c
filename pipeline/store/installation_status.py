"""Status of the whole installation: consumer lag, health, document states, and requested scans."""

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
"""A reported outage of a component expires after this time; the status of a source stays valid
until the next report.
"""


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """Health of a component.

    Attributes:
        state: `ok` or `down`.
        detail: the cause, if it is down.
        since: time of the last change of state, aware.
    """

    state: str
    detail: str | None
    since: datetime


class QueueBacklog:
    """Implements `livedex.pipeline.events.consumer_lag.ConsumerLag` for the queue in PostgreSQL.

    A mark is a time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self) -> dict[str, StageLag]:
        """Return the pending events by stage."""
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
        """Return the current time."""
        return datetime.now(UTC)

    async def left(self, mark: object) -> int:
        """Return the number of changes up to a time that the chunk stage has not processed."""
        assert isinstance(mark, datetime)
        async with self._database.system("queue") as connection:
            return int(
                await connection.fetchval(sql("queued_since"), mark.astimezone(UTC).isoformat())
            )


class InstallationStatus:
    """Reads and writes the status of the whole installation, over all tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._letters = DeadLetterStore(database)
        self._subscribers = SubscriberStore(database)

    async def health(self) -> dict[str, ComponentHealth]:
        """Return the health of every component that ever reported it, by name."""
        async with self._database.system("health") as connection:
            rows = await connection.fetch(sql("read_health"), HEALTH_EXPIRES_S)
        return {
            row["component"]: ComponentHealth(row["state"], row["detail"], row["since"])
            for row in rows
        }

    async def set_health(self, component: str, *, ok: bool, detail: str | None = None) -> None:
        """Store the health of a component, so that other processes can read it.

        Args:
            component: its name.
            ok: whether it works.
            detail: the cause, if it does not.
        """
        async with self._database.system("health") as connection:
            await connection.execute(
                sql("set_health"), component, "ok" if ok else "down", detail, HEALTH_EXPIRES_S
            )

    async def probe_writes(self) -> None:
        """Return if the database accepts writes, as far as can be seen without a write.

        Raises:
            OutageError: it does not.
        """
        async with self._database.system("probe the database") as connection:
            await connection.execute(sql("probe_writes"))

    async def clear_health(self) -> None:
        """Delete the health that an earlier run stored."""
        async with self._database.system("health") as connection:
            await connection.execute(sql("clear_health"))

    async def has_text_search_config(self, name: str) -> bool:
        """Return whether PostgreSQL has a text search configuration of this name."""
        async with self._database.system("text search configuration") as connection:
            return bool(await connection.fetchval(sql("has_language"), name))

    async def release_leases(self) -> None:
        """Release the records and notifications that ended processes had leased.

        Only for an installation with a single process, at its start.
        """
        async with self._database.system("release leases") as connection:
            await connection.execute(sql("release_leases"))
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "release notices") as connection:
                await connection.execute(sql("release_notices"), tenant_id)

    async def request_scan(self) -> int:
        """Request a scan of all watched folders, and return the number of the request."""
        async with self._database.system("request reconcile") as connection:
            return int(await connection.fetchval(sql("request_reconcile")))

    async def open_requests(self) -> list[int]:
        """Return the requests that no watcher has handled."""
        async with self._database.system("reconcile requests") as connection:
            return [
                row["request_id"] for row in await connection.fetch(sql("open_reconcile_requests"))
            ]

    async def close_requests(self, requests: list[int], detail: str) -> None:
        """Record that scans were done.

        Args:
            requests: their numbers.
            detail: result, for the operator.
        """
        async with self._database.system("reconcile requests") as connection:
            await connection.execute(sql("close_reconcile_requests"), requests, detail)
            await connection.execute(sql("clear_reconcile_requests"))

    async def is_scan_done(self, request: int) -> bool:
        """Return whether the watchers have done a requested scan."""
        async with self._database.system("reconcile request") as connection:
            return bool(await connection.fetchval(sql("reconcile_handled"), request))

    async def pending_since(self, moment: datetime) -> int:
        """Return the number of pending documents that were accepted at or before a time."""
        return await self._database.total("pending_since", "pending documents", moment)

    async def document_states(self) -> dict[str, int]:
        """Return the number of documents by state."""
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
        """Return the pending notifications and the age of the oldest; None: no subscribers."""
        subscribers = await self._subscribers.all()
        if not subscribers:
            return None
        return StageLag(
            sum(each.waiting for each in subscribers), max(each.oldest_s for each in subscribers)
        )

    async def dead_letters_without_document(self) -> int:
        """Return the number of dead letters that belong to no document, without notifications."""
        return await self._database.total("unmarked_letters", "dead letters without a document")

    async def count_dead_letters(self) -> int:
        """Return the number of dead letters."""
        return await self._letters.count()
