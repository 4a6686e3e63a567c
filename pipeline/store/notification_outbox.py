"""The outbox of notifications for subscribers.

A notification stays in the table until it is delivered or becomes a dead letter. The same statement
removes it and stores the dead letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.events.notifications import NOTIFY_STAGE, Notification, decode_notification
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, dead_letter_id, insert_dead_letter
from livedex.pipeline.store.postgres.statements import sql

MAX_CONSECUTIVE_REFUSALS = 5
"""After so many consecutive refusals, the subscriber counts as failing, not the notifications."""

NOTIFICATIONS_CHANNEL = "livedex_notices"
"""PostgreSQL channel that receives the name of a subscriber with new notifications."""


@dataclass(frozen=True, slots=True)
class DeliveryBatch:
    """The state of a subscriber, and the notifications leased for it.

    Attributes:
        failures: consecutive failures without a response from the subscriber.
        refusals: consecutive notifications that the subscriber refused.
        problem: message of the last failure or refusal.
        stopped: the subscriber wants no more notifications.
        pause_s: seconds until the next delivery is allowed, >= 0.
        notices: leased notifications, by due time.
    """

    failures: int
    refusals: int
    problem: str | None
    stopped: bool
    pause_s: float
    notices: Sequence[Notification] = ()

    @property
    def can_send(self) -> bool:
        """Return whether a delivery is allowed now."""
        return not self.stopped and self.pause_s <= 0

    @property
    def is_failing(self) -> bool:
        """Return whether the subscriber is unavailable, or refused several notifications in a
        row.
        """
        return self.failures > 0 or self.refusals >= MAX_CONSECUTIVE_REFUSALS


class NotificationOutbox:
    """Leases, acknowledges and buries notifications.

    Leases and acknowledgements need not survive a crash of the database: the notifications are then
    delivered again, with the same ids. Every method may raise OutageError and RetryableError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(
        self, tenant_id: TenantId, subscriber: str, *, at_once: int, under_way: int, lease_s: float
    ) -> DeliveryBatch | None:
        """Lease the notifications that are due, only the oldest of each document; none while the
        subscriber is paused.

        Args:
            tenant_id: owner of the subscriber.
            subscriber: its name.
            at_once: maximum number of concurrent deliveries, >= 1; a failing subscriber gets one.
            under_way: deliveries in progress, >= 0.
            lease_s: seconds after which other processes may lease them.

        Returns:
            The batch; None: the subscriber does not exist.
        """
        async with self._database.tenant(
            tenant_id, f"lease notifications for {subscriber}", durable=False
        ) as connection:
            row = await connection.fetchrow(sql("look_at_subscriber"), tenant_id, subscriber)
            if row is None:
                return None
            look = DeliveryBatch(**row)
            most = (1 if look.is_failing else at_once) - under_way
            if not look.can_send or most < 1:
                return look
            rows = await connection.fetch(sql("take_notices"), tenant_id, subscriber, most, lease_s)
        return DeliveryBatch(
            **row,
            notices=sorted(
                (_notice(tenant_id, each) for each in rows), key=lambda notice: notice.notice_id
            ),
        )

    async def told(self, tenant_id: TenantId, notices: Iterable[Notification]) -> None:
        """Remove delivered notifications."""
        async with self._database.tenant(
            tenant_id, "remove delivered notifications", durable=False
        ) as connection:
            await connection.execute(
                sql("remove_notices"), tenant_id, [notice.notice_id for notice in notices]
            )

    async def postpone(self, notice: Notification, wait_s: float, *, counts: bool = True) -> None:
        """Schedule a retry, unless another process has leased the notification meanwhile.

        Args:
            notice: that was not delivered.
            wait_s: seconds until the retry, >= 0.
            counts: whether the failure counts as an attempt for this notification.
        """
        async with self._database.tenant(
            notice.tenant_id, "postpone a notification", durable=False
        ) as connection:
            await connection.execute(
                sql("postpone_notice"),
                notice.tenant_id,
                notice.notice_id,
                notice.leased_until,
                wait_s,
                int(counts),
            )

    async def bury(self, notice: Notification, *, reason: str, detail: str, attempts: int) -> None:
        """Move a notification to the dead letters; its document stays unchanged.

        Args:
            notice: the notification.
            reason: a short code.
            detail: message for operators.
            attempts: deliveries tried.
        """
        payload = notice.encode()
        letter = DeadLetter(
            dead_letter_id(f"notice-{notice.notice_id}-{notice.subscriber}", payload),
            notice.tenant_id,
            NOTIFY_STAGE,
            notice.document_id,
            notice.version,
            reason,
            detail,
            attempts,
            place={"subscriber": notice.subscriber},
            headers={"webhook-id": notice.webhook_id},
            payload=payload,
        )
        async with self._database.tenant(
            notice.tenant_id, f"move a notification for {notice.subscriber} to the dead letters"
        ) as connection:
            await insert_dead_letter(connection, letter)
            await connection.execute(sql("remove_notices"), notice.tenant_id, [notice.notice_id])

    async def put_again(self, letter: DeadLetter) -> None:
        """Return the notification of a dead letter to the outbox, with its id, and remove the dead
        letter.

        Args:
            letter: of a notification.

        Raises:
            RejectedError: its payload is no notification.
            NotFoundError: its subscriber does not exist any more.
        """
        name = str(letter.place.get("subscriber", ""))
        notice = decode_notification(letter.payload, name)
        async with self._database.tenant(
            letter.tenant_id, f"replay a notification for {name}"
        ) as connection:
            if await connection.fetchrow(sql("look_at_subscriber"), letter.tenant_id, name) is None:
                raise NotFoundError(
                    f"dead letter {letter.letter_id} is for the subscriber {name}, which does not "
                    "exist: drop the dead letter, or configure the subscriber"
                )
            await connection.execute(
                sql("put_notice"),
                letter.tenant_id,
                name,
                notice.event_id,
                notice.kind,
                notice.document_id,
                notice.version,
                dict(notice.data),
                notice.at,
            )
            await connection.execute(sql("delete_letter"), letter.tenant_id, letter.letter_id)

    async def lease_expired(
        self, tenant_id: TenantId, subscriber: str, most: int, *, lease_s: float
    ) -> list[Notification]:
        """Lease the notifications that exceeded their maximum age, oldest first.

        Args:
            tenant_id: owner of the subscriber.
            subscriber: its name.
            most: maximum number, >= 1.
            lease_s: seconds after which other processes may lease them.
        """
        async with self._database.tenant(
            tenant_id, f"expired notifications for {subscriber}", durable=False
        ) as connection:
            rows = await connection.fetch(
                sql("take_expired_notices"), tenant_id, subscriber, most, lease_s
            )
        return [_notice(tenant_id, row) for row in rows]

    async def read(self, tenant_id: TenantId, subscriber: str, most: int) -> list[Notification]:
        """Return the oldest notifications for a subscriber that polls; they stay until `told`.

        Args:
            tenant_id: owner of the subscriber.
            subscriber: its name.
            most: maximum number, >= 1.
        """
        what = f"read notifications for {subscriber}"
        async with self._database.tenant(tenant_id, what) as connection:
            rows = await connection.fetch(sql("read_notices"), tenant_id, subscriber, most)
        return [_notice(tenant_id, row) for row in rows]


def _notice(tenant_id: TenantId, row: Mapping[str, Any] | asyncpg.Record) -> Notification:
    return Notification(tenant_id=tenant_id, **row)
