"""Subscribers as the database knows them: for whom notices are written, and whether these get
through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from livedex.pipeline.errors import NotFoundError, TenantDeletedError
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql


@dataclass(frozen=True, slots=True)
class SubscriberConfig:
    """What the settings say of a subscriber, as far as the stages need it.

    Attributes:
        events: kinds of notices that it wants, at least one.
        collections: only documents in, entering or leaving these; empty: all.
        reads: it reads for itself; else it is told at a URL.
        keep_days: how long a notice waits for it at most.
    """

    tenant_id: TenantId
    name: str
    events: tuple[str, ...]
    collections: tuple[str, ...]
    reads: bool
    keep_days: float = 7.0

    @property
    def row(self) -> tuple[Any, ...]:
        """The parameters of the statements that write it."""
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
    """A subscriber as an operator sees it.

    Attributes:
        configured: the settings that `notify` was last started with name it.
        failures: in a row, without an answer of its own.
        refusals: in a row, of what it was sent.
        stopped_at: when it answered that it is gone; None: it is told.
        problem: the last failure in words; None: it works.
        pause_s: seconds until something is sent to it again, >= 0. waiting, oldest_s: notices that
            it has still to be told, and the age of the oldest in seconds.
        met: a `notify` has written it to the database; nothing waits for one before.
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

    @property
    def state(self) -> str:
        """`ok`, `paused`, `failing`, `stopped`, `not configured`, or `not started`."""
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
    """A subscriber that the settings name, before any `notify` was started with them."""
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
    """Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def configure(self, wanted: Sequence[SubscriberConfig]) -> list[str]:
        """Make the table say what the settings say.

        Returns:
            The names of those that were there and are not wanted any more: nothing new is written
            for them. One whose tenant was deleted is left out; whoever tells it finds that out.
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
                # so that it is found before its first document
                await connection.execute(sql("add_tenant"), tenant_id)
            for registration in registrations:
                await connection.execute(sql("configure_subscriber"), *registration.row)
        return [row["name"] for row in rows]

    async def add(self, registration: SubscriberConfig) -> None:
        """Write one again whose tenant was emptied; one that is there stays as it is.

        Raises:
            TenantDeletedError: its tenant was deleted.
        """
        async with self._database.tenant(
            registration.tenant_id, f"add subscriber {registration.name}"
        ) as connection:
            await connection.execute(sql("add_tenant"), registration.tenant_id)
            await connection.execute(sql("add_subscriber"), *registration.row)

    async def all(self) -> list[SubscriberStatus]:
        """Every subscriber, by tenant and name."""
        found = []
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "list subscribers") as connection:
                rows = await connection.fetch(sql("list_subscribers"), tenant_id)
            found += [SubscriberStatus(tenant_id, **row) for row in rows]
        return found

    async def find(self, name: str) -> SubscriberStatus:
        """One of them.

        Raises:
            NotFoundError: there is none of this name.
        """
        for each in await self.all():
            if each.name == name:
                return each
        raise NotFoundError(
            f"there is no subscriber {name}: `livedex subscribers list` shows what there is"
        )

    async def failed(
        self, tenant_id: TenantId, name: str, problem: str, *, asked_s: float = 0.0
    ) -> float:
        """Note that it is away, or wants to be left alone, and pause it.

        Args:
            problem: in words, without its URL.
            asked_s: seconds that it asks for.

        Returns:
            Seconds until something is sent to it again.
        """
        async with self._database.tenant(
            tenant_id, f"pause subscriber {name}", durable=False
        ) as connection:
            pause_s: float | None = await connection.fetchval(
                sql("subscriber_failed"), tenant_id, name, problem, asked_s
            )
        return pause_s or 0.0

    async def refused(self, tenant_id: TenantId, name: str, problem: str) -> None:
        """Note that it is there, and did not take what it was sent."""
        async with self._database.tenant(
            tenant_id, f"subscriber {name} refused", durable=False
        ) as connection:
            await connection.execute(sql("subscriber_refused"), tenant_id, name, problem)

    async def record_success(self, tenant_id: TenantId, name: str) -> None:
        """Note that it was told something, after failures."""
        async with self._database.tenant(
            tenant_id, f"subscriber {name} works", durable=False
        ) as connection:
            await connection.execute(sql("subscriber_works"), tenant_id, name)

    async def stop(self, tenant_id: TenantId, name: str, problem: str) -> None:
        """Send it nothing more, and write nothing more for it."""
        async with self._database.tenant(tenant_id, f"stop subscriber {name}") as connection:
            await connection.execute(sql("stop_subscriber"), tenant_id, name, problem)

    async def resume(self, tenant_id: TenantId, name: str) -> None:
        """Send to it again, beginning at once with what waits."""
        async with self._database.tenant(tenant_id, f"resume subscriber {name}") as connection:
            await connection.execute(sql("resume_subscriber"), tenant_id, name)
