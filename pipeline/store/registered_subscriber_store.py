"""Subscribers that were created over the API: stored with their URL and their secret."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from livedex.pipeline.errors import ConflictError, NotFoundError, RejectedError
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.subscriber_store import SubscriberConfig

MAX_REGISTERED = 20
"""Subscribers that a tenant may create."""


@dataclass(frozen=True, slots=True)
class RegisteredSubscriber:
    """A subscriber that was created over the API.

    Attributes:
        config: the subscriber as the stages know it.
        url: where notifications are sent; None: it reads them itself.
        secret: signs them, as Standard Webhooks writes it; None without a URL.
        attempts: for one notification.
        created_at: tells it from a later one of the same name.
        is_active: notifications are written for it.
    """

    config: SubscriberConfig
    url: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    attempts: int = 10
    created_at: datetime | None = None
    is_active: bool = True

    @property
    def key(self) -> tuple[TenantId, str]:
        """Return the tenant and the name."""
        return self.config.key


class RegisteredSubscriberStore:
    """Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, subscriber: RegisteredSubscriber) -> None:
        """Store a subscriber; from then on notifications are written for it.

        Raises:
            ConflictError: there is a subscriber of this name.
            RejectedError: the tenant has MAX_REGISTERED subscribers.
            TenantDeletedError: the tenant was deleted.
        """
        config = subscriber.config
        tenant_id, name = subscriber.key
        async with self._database.tenant(tenant_id, f"create subscriber {name}") as connection:
            await connection.execute(sql("lock_registered_subscribers"), tenant_id)
            await connection.execute(sql("add_tenant"), tenant_id)
            if await connection.fetchval(sql("is_subscriber_configured"), tenant_id, name):
                raise _exists(name)
            if (
                await connection.fetchval(sql("count_registered_subscribers"), tenant_id)
                >= MAX_REGISTERED
            ):
                raise RejectedError(
                    f"a tenant may create {MAX_REGISTERED} subscribers: delete one first",
                    reason="too_many",
                )
            created = await connection.fetchval(
                sql("register_subscriber"),
                tenant_id,
                name,
                subscriber.url,
                subscriber.secret,
                list(config.events),
                list(config.collections),
                subscriber.attempts,
                config.keep_days,
            )
            if created is None:
                raise _exists(name)
            await connection.execute(sql("configure_subscriber"), *config.row)

    async def activate(self, config: SubscriberConfig) -> None:
        """Let notifications be written for a stored subscriber again."""
        async with self._database.tenant(
            config.tenant_id, f"activate subscriber {config.name}"
        ) as connection:
            await connection.execute(sql("configure_subscriber"), *config.row)

    async def delete(self, tenant_id: TenantId, name: str) -> None:
        """Remove a subscriber and its pending notifications: one that was created here, or one that
        livedex.toml no longer names.

        Raises:
            NotFoundError: there is none of this name.
            ConflictError: livedex.toml names it.
        """
        async with self._database.tenant(tenant_id, f"delete subscriber {name}") as connection:
            removed = await connection.fetchval(sql("unregister_subscriber"), tenant_id, name)
            configured = await connection.fetchval(sql("is_subscriber_configured"), tenant_id, name)
            if removed is None and configured is None:
                raise NotFoundError(
                    f"there is no subscriber {name}: GET /v1/subscribers lists those there are"
                )
            if removed is None and configured:
                raise ConflictError(
                    f"the subscriber {name} stands in livedex.toml: remove it there and restart "
                    "the role notify"
                )
            await connection.execute(sql("delete_subscriber"), tenant_id, name)

    async def all(self) -> list[RegisteredSubscriber]:
        """Return every stored subscriber, by tenant and name."""
        async with self._database.system("tenants with subscribers") as connection:
            tenants = [
                TenantId(row["tenant_id"])
                for row in await connection.fetch(sql("subscriber_tenants"))
            ]
        found = []
        for tenant_id in tenants:
            async with self._database.tenant(tenant_id, "read subscribers") as connection:
                rows = await connection.fetch(sql("list_registered_subscribers"), tenant_id)
            found += [
                RegisteredSubscriber(
                    SubscriberConfig(
                        tenant_id,
                        row["name"],
                        tuple(row["events"]),
                        tuple(row["collections"]),
                        row["url"] is None,
                        row["keep_days"],
                    ),
                    row["url"],
                    row["secret"],
                    row["attempts"],
                    row["created_at"],
                    row["is_active"],
                )
                for row in rows
            ]
        return found


def _exists(name: str) -> ConflictError:
    return ConflictError(f"there is a subscriber {name} already: choose another name")
