"""Subscribers in the database: their configuration and the status of their deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from livedex.pipeline.errors import ConflictError, NotFoundError, TenantDeletedError
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql


@dataclass(frozen=True, slots=True)
class SubscriberConfig:
    """The configuration of a subscriber, as far as the stages need it.

    Attributes:
        tenant_id: owner of the subscriber.
        name: of the subscriber.
        events: kinds of notifications that it receives, at least one.
        collections: only documents in, entering or leaving these; empty: all.
        reads: it polls for notifications; False: they are sent to its URL.
        keep_days: maximum age of a notification in days.
    """

    tenant_id: TenantId
    name: str
    events: tuple[str, ...]
    collections: tuple[str, ...]
    reads: bool
    keep_days: float = 7.0

    @property
    def key(self) -> tuple[TenantId, str]:
        """Return the tenant and the name."""
        return self.tenant_id, self.name

    @property
    def row(self) -> tuple[Any, ...]:
        """Return the parameters of the statements that write it."""
        return (
            self.tenant_id,
            self.name,
            list(self.events),
            list(self.collections),
            self.reads,
            self.keep_days,
        )


@dataclass(frozen=True, slots=True)
class SubscriberStatus:
    """A subscriber as operators see it.

    Attributes:
        tenant_id: owner of the subscriber.
        name: of the subscriber.
        events: kinds of notifications that it receives.
        collections: to which it is limited; empty: all.
        reads: it polls for notifications; False: they are sent to its URL.
        configured: it is in the settings of the last started `notify`.
        failures: consecutive failures without a response from the subscriber.
        refusals: consecutive notifications that it refused.
        stopped_at: time of its response 410 Gone, aware; None: it receives notifications.
        problem: message of the last failure; None: deliveries succeed.
        pause_s: seconds until the next delivery, >= 0.
        waiting: number of pending notifications.
        oldest_s: age of the oldest pending notification in seconds.
        met: a `notify` process has stored it; before that, no notifications are kept for it.
        registered: it was created over the API.
    """

    tenant_id: TenantId
    name: str
    events: Sequence[str]
    collections: Sequence[str]
    reads: bool
    configured: bool
    failures: int
    refusals: int
    stopped_at: datetime | None
    problem: str | None
    pause_s: float
    waiting: int
    oldest_s: float
    met: bool = True
    registered: bool = False

    @property
    def state(self) -> str:
        """Return `ok`, `paused`, `failing`, `stopped`, `not configured` or `not started`."""
        if not self.met:
            return "not started"
        if not self.configured:
            return "not configured"
        if self.stopped_at is not None:
            return "stopped"
        if self.pause_s > 0:
            return "paused"
        return "failing" if self.failures or self.refusals else "ok"


def not_started_status(registration: SubscriberConfig) -> SubscriberStatus:
    """Return the status of a configured subscriber that no `notify` process has stored yet."""
    r = registration
    return SubscriberStatus(
        r.tenant_id,
        r.name,
        r.events,
        r.collections,
        r.reads,
        configured=True,
        failures=0,
        refusals=0,
        stopped_at=None,
        problem=None,
        pause_s=0.0,
        waiting=0,
        oldest_s=0.0,
        met=False,
    )


class SubscriberStore:
    """Configures subscribers and records the outcome of deliveries.

    Every method may raise OutageError and RetryableError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def configure(self, wanted: Sequence[SubscriberConfig]) -> list[str]:
        """Replace the stored subscribers by the configured ones.

        Subscribers of deleted tenants are skipped without an error.

        Args:
            wanted: configured subscribers.

        Returns:
            Names of stored subscribers that are no longer configured; they get no new
            notifications.
        """
        by_tenant: Mapping[TenantId, list[SubscriberConfig]] = {
            tenant_id: [] for tenant_id in await self._database.tenants()
        } | {each.tenant_id: [] for each in wanted}
        for each in wanted:
            by_tenant[each.tenant_id].append(each)
        gone: list[str] = []
        for tenant_id, registrations in by_tenant.items():
            with suppress(TenantDeletedError):
                gone += await self._configure(tenant_id, registrations)
        return gone

    async def _configure(
        self, tenant_id: TenantId, registrations: Sequence[SubscriberConfig]
    ) -> list[str]:
        async with self._database.tenant(tenant_id, "configure subscribers") as connection:
            rows = await connection.fetch(
                sql("forget_other_subscribers"), tenant_id, [each.name for each in registrations]
            )
            await connection.execute(sql("remove_forgotten_subscribers"), tenant_id)
            if registrations:
                # the tenant must be listed before its first document exists
                await connection.execute(sql("add_tenant"), tenant_id)
            for registration in registrations:
                await connection.execute(sql("configure_subscriber"), *registration.row)
        return [row["name"] for row in rows]

    async def add(self, registration: SubscriberConfig) -> None:
        """Store a subscriber again after its tenant was emptied; an existing one stays unchanged.

        Args:
            registration: its configuration.

        Raises:
            TenantDeletedError: its tenant was deleted.
        """
        async with self._database.tenant(
            registration.tenant_id, f"add subscriber {registration.name}"
        ) as connection:
            await connection.execute(sql("add_tenant"), registration.tenant_id)
            await connection.execute(sql("add_subscriber"), *registration.row)

    async def all(self) -> list[SubscriberStatus]:
        """Return all subscribers by tenant and name."""
        found = []
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "list subscribers") as connection:
                rows = await connection.fetch(sql("list_subscribers"), tenant_id)
            found += [SubscriberStatus(tenant_id, **row) for row in rows]
        return found

    async def find(self, name: str, tenant: str | None = None) -> SubscriberStatus:
        """Return a subscriber.

        Args:
            name: of the subscriber.
            tenant: owner of the subscriber; None: any, if only one has the name.

        Raises:
            NotFoundError: no subscriber has this name.
            ConflictError: subscribers of several tenants have this name.
        """
        found = [
            each
            for each in await self.all()
            if each.name == name and tenant in (None, each.tenant_id)
        ]
        if len(found) > 1:
            raise ConflictError(
                f"{len(found)} tenants have a subscriber {name}: say whose with --tenant"
            )
        if found:
            return found[0]
        raise NotFoundError(
            f"subscriber {name} not found: `livedex subscribers list` shows all subscribers"
        )

    async def failed(
        self, tenant_id: TenantId, name: str, problem: str, *, asked_s: float = 0.0
    ) -> float:
        """Record that a subscriber is unavailable or rate-limits, and pause it.

        Args:
            tenant_id: owner of the subscriber.
            name: of the subscriber.
            problem: message for operators, without the URL.
            asked_s: seconds that the subscriber requested (`Retry-After`).

        Returns:
            Seconds until the next delivery.
        """
        async with self._database.tenant(
            tenant_id, f"pause subscriber {name}", durable=False
        ) as connection:
            pause_s: float | None = await connection.fetchval(
                sql("subscriber_failed"), tenant_id, name, problem, asked_s
            )
        return pause_s or 0.0

    async def refused(self, tenant_id: TenantId, name: str, problem: str) -> None:
        """Record that a subscriber responded, but refused a notification."""
        async with self._database.tenant(
            tenant_id, f"subscriber {name} refused", durable=False
        ) as connection:
            await connection.execute(sql("subscriber_refused"), tenant_id, name, problem)

    async def record_success(self, tenant_id: TenantId, name: str) -> None:
        """Record a successful delivery after failures."""
        async with self._database.tenant(
            tenant_id, f"subscriber {name} works", durable=False
        ) as connection:
            await connection.execute(sql("subscriber_works"), tenant_id, name)

    async def stop(self, tenant_id: TenantId, name: str, problem: str) -> None:
        """Stop deliveries to a subscriber, and store no more notifications for it."""
        async with self._database.tenant(tenant_id, f"stop subscriber {name}") as connection:
            await connection.execute(sql("stop_subscriber"), tenant_id, name, problem)

    async def resume(self, tenant_id: TenantId, name: str) -> None:
        """Resume deliveries to a subscriber, beginning with its pending notifications."""
        async with self._database.tenant(tenant_id, f"resume subscriber {name}") as connection:
            await connection.execute(sql("resume_subscriber"), tenant_id, name)
