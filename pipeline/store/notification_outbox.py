"""Notices on their way to subscribers.

A notice is in the table until it was told, or is a dead letter: both in the statement that removes
it.
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
"""In a row: it is not what it was sent that is wrong."""

NOTIFICATIONS_CHANNEL = "livedex_notices"
"""On which the name of a subscriber is sent when there is something for it."""


@dataclass(frozen=True, slots=True)
class DeliveryBatch:
    """How a subscriber is, and what was taken for it.

    Attributes:
        failures: in a row, without an answer of its own.
        refusals: in a row, of what it was sent.
        problem: the last one in words.
        stopped: it wants to be told no more.
        pause_s: seconds until something may be sent to it, >= 0.
        notices: taken, due first.
    """

    failures: int
    refusals: int
    problem: str | None
    stopped: bool
    pause_s: float
    notices: Sequence[Notification] = ()

    @property
    def can_send(self) -> bool:
        """Whether something may be sent to it now."""
        return not self.stopped and self.pause_s <= 0

    @property
    def is_failing(self) -> bool:
        """Whether it could not be told several things in a row, or is away."""
        return self.failures > 0 or self.refusals >= MAX_CONSECUTIVE_REFUSALS


class NotificationOutbox:
    """Every method may raise OutageError and RetryableError.

    What is taken and what was told need not outlive a crash of the database: it is sent again then,
    and has the same id.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(
        self, tenant_id: TenantId, subscriber: str, *, at_once: int, under_way: int, lease_s: float
    ) -> DeliveryBatch | None:
        """Take notices that are due, of each document only the oldest; none while nothing may be
        sent.

        Args:
            at_once: notices that whoever asks sends at the same time; one while the subscriber
                fails.
            under_way: of these, that are being sent now.
            lease_s: after which somebody else may take them.

        Returns:
            None where there is no such subscriber.
        """
        async with self._database.tenant(
            tenant_id, f"take notices for {subscriber}", durable=False
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
        """They were told."""
        async with self._database.tenant(
            tenant_id, "notices were told", durable=False
        ) as connection:
            await connection.execute(
                sql("remove_notices"), tenant_id, [notice.notice_id for notice in notices]
            )

    async def postpone(self, notice: Notification, wait_s: float, *, counts: bool = True) -> None:
        """It was not told: try again later, unless somebody else has it by now.

        Args:
            counts: whether that was an attempt of its own.
        """
        async with self._database.tenant(
            notice.tenant_id, "postpone a notice", durable=False
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
        """Make it a dead letter. Its document stays as it is."""
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
            notice.tenant_id, f"bury a notice for {notice.subscriber}"
        ) as connection:
            await insert_dead_letter(connection, letter)
            await connection.execute(sql("remove_notices"), notice.tenant_id, [notice.notice_id])

    async def put_again(self, letter: DeadLetter) -> None:
        """Let what a dead letter holds be told again, with the id that it had, and take the letter
        away.

        Raises:
            RejectedError: its bytes hold no notice.
            NotFoundError: its subscriber is no more.
        """
        name = str(letter.place.get("subscriber", ""))
        notice = decode_notification(letter.payload, name)
        async with self._database.tenant(
            letter.tenant_id, f"put a notice for {name} again"
        ) as connection:
            if await connection.fetchrow(sql("look_at_subscriber"), letter.tenant_id, name) is None:
                raise NotFoundError(
                    f"letter {letter.letter_id} is for the subscriber {name}, and there is "
                    "none: drop it, or set up the subscriber"
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
        """Take notices that have waited for as long as they may, oldest first."""
        async with self._database.tenant(
            tenant_id, f"expired notices for {subscriber}", durable=False
        ) as connection:
            rows = await connection.fetch(
                sql("take_expired_notices"), tenant_id, subscriber, most, lease_s
            )
        return [_notice(tenant_id, row) for row in rows]

    async def read(self, tenant_id: TenantId, subscriber: str, most: int) -> list[Notification]:
        """The oldest notices for one that reads for itself; they are there until `told`."""
        async with self._database.tenant(tenant_id, f"read notices for {subscriber}") as connection:
            rows = await connection.fetch(sql("read_notices"), tenant_id, subscriber, most)
        return [_notice(tenant_id, row) for row in rows]


def _notice(tenant_id: TenantId, row: Mapping[str, Any] | asyncpg.Record) -> Notification:
    return Notification(tenant_id=tenant_id, **row)
