"""The PostgreSQL broker: a queue that is a table, consumed through FastStream (faststream-outbox).

A row is leased to a worker for `LEASE_S`; leases of running work are renewed, so that a slow
document is not taken twice, and those of a process that died run out. Retries that wait are rows
with a later time; a stage that waits for a dependency holds its rows.

What is published at the same time is published together, in one transaction a topic.

Publish first, then acknowledge: a crash in between delivers the row again, and every stage is
idempotent. Only a change that enters is waited for until it is on disk. What follows need not be:
the log of the database keeps its order, so when a crash loses the publishing to the next stage, it
loses the acknowledgement after it too.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from faststream import AckPolicy
from faststream.message import StreamMessage
from faststream_outbox import OutboxBroker
from faststream_outbox.message import OutboxInnerMessage
from faststream_outbox.schema import make_outbox_table
from sqlalchemy import MetaData, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from livedex.consumers.postgres.acknowledging import queue_outage_cause
from livedex.consumers.postgres.compat import fetch_now, patch_subscriber
from livedex.consumers.postgres.queue_client import QueueClient, tenant_of
from livedex.consumers.postgres.row_scheduler import (
    DOCUMENT_HEADER,
    TENANT_HEADER,
    DocumentBusyError,
    RowScheduler,
)
from livedex.consumers.record_processor import Record, RecordProcessor, StoppingError
from livedex.pipeline.errors import LivedexError, OutageError
from livedex.pipeline.events.event import CHANGED, Changed, Event
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.replays import REPLAY_HEADER

log = logging.getLogger(__name__)

TABLE = "queue"
LEASE_S = 20.0  # what a process that stands still holds is taken over after this
DRAIN_S = 25.0
_PUT_TOGETHER = 64
_BUSY_S = 0.25  # until a version is delivered again, behind several others of its document
# rows of a worker that has more waiting; an idle one acknowledges at once
ACKNOWLEDGED_TOGETHER = 2


@dataclass(frozen=True, slots=True)
class _Put:
    """An event on its way to a topic."""

    topic: str
    payload: bytes
    accepted: datetime
    of: dict[str, str]


class _AgainError(Exception):
    """Deliver the row again after a while."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"again in {after_s} s")
        self.after_s = after_s


class _AsTold:
    """The retry strategy: as long as the error says; whatever escapes unforeseen is delivered
    again as well.
    """

    def get_next_attempt_delay(
        self,
        *,
        first_attempt_at: datetime,
        last_attempt_at: datetime,
        attempts_count: int,
        exception: BaseException | None = None,
    ) -> float | None:
        return exception.after_s if isinstance(exception, _AgainError) else 1.0


async def _raw(message: StreamMessage[OutboxInnerMessage]) -> OutboxInnerMessage:
    return message.raw_message


class PostgresBroker:
    """Publishes to the queue and runs stages over it.

    Args:
        engine: connections of the broker; each stage holds one to fetch, and all share the rest.
        database: for leases.
    """

    def __init__(self, engine: AsyncEngine, database: Database) -> None:
        self._engine = engine
        self._database = database
        table = make_outbox_table(MetaData(), TABLE)
        self._broker = OutboxBroker(
            engine,
            outbox_table=table,
            graceful_timeout=DRAIN_S,
            apply_types=False,
            logger=None,
            decoder=_raw,
        )
        self._client = QueueClient(engine, table)
        self._broker.config.broker_config.client = self._client  # there is no argument for it
        self._settlers: list[RecordProcessor] = []
        self._working: dict[int, Any] = {}
        self._put: MicroBatcher[_Put, None] = MicroBatcher(
            self._put_together, group=lambda put: put.topic, max_items=_PUT_TOGETHER
        )

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        """See `livedex.pipeline.ingest.ingester.ChangePublisher`."""
        if events:
            rows = [
                (event.encode(), _whose(event.tenant_id, event.document_id)) for event in events
            ]
            await self._put_all(
                CHANGED, rows, min(event.accepted for event in events), durable=True
            )

    async def publish_step(self, topic: str, event: Event[Any]) -> None:
        """Put an event of a stage on its topic.

        Raises:
            OutageError: the broker does not hold it.
        """
        await self._put(
            _Put(topic, event.encode(), event.accepted, _whose(event.tenant_id, event.document_id))
        )

    async def republish_dead_letter(self, letter: DeadLetter) -> None:
        """Put the exact bytes of a dead letter on its topic again."""
        rows = [(letter.payload, _whose(letter.tenant_id, letter.document_id))]
        await self._put_all(
            letter.topic, rows, datetime.now(UTC), durable=True, replay_of=letter.letter_id
        )

    async def _put_together(self, puts: Sequence[_Put]) -> list[None]:
        await self._put_all(
            puts[0].topic,
            [(put.payload, put.of) for put in puts],
            min(put.accepted for put in puts),
            durable=False,
        )
        return [None] * len(puts)

    async def _put_all(
        self,
        topic: str,
        rows: Sequence[tuple[bytes, dict[str, str]]],
        accepted: datetime,
        *,
        durable: bool,
        replay_of: str = "",
    ) -> None:
        """Publish in one transaction.

        Args:
            topic: of the rows.
            rows: payloads, and headers that say whose they are.
            accepted: the earliest of all: who waits for what was accepted until a moment may wait
                for some more, never for fewer.
            durable: wait until the rows are on disk.
            replay_of: the id of the dead letter that is sent through again.

        Raises:
            OutageError: the database does not answer.
        """
        # the first failure may be that of a session which was ended while nobody used it
        for is_last in (False, True):
            try:
                async with self._engine.begin() as connection:
                    if durable:
                        await connection.execute(text("set local synchronous_commit = on"))
                    headers = {"accepted": accepted.astimezone(UTC).isoformat()} | (
                        {REPLAY_HEADER: replay_of} if replay_of else {}
                    )
                    await self._client.insert_batch(
                        connection,
                        queue=topic,
                        rows=[(payload, headers | own) for payload, own in rows],
                    )
                return
            except Exception as exc:
                cause = queue_outage_cause(exc)
                if cause is None and isinstance(exc, SQLAlchemyError):
                    # a fault of the queue, and of no event
                    raise OutageError("broker", f"publish to {topic}: {_kind(exc)}") from exc
                if cause is None:
                    raise
                if is_last:
                    raise OutageError(
                        "database", f"publish to {topic}: {cause} ({_kind(exc)})", cause=cause
                    ) from exc

    def add(self, settler: RecordProcessor) -> None:
        """Run a stage once the broker is started."""
        self._settlers.append(settler)
        stage = settler.stage
        turns = self._client.turns[stage.takes] = RowScheduler(stage.workers)

        subscriber = self._broker.subscriber(
            stage.takes,
            max_workers=turns.max_rows,
            fetch_batch_size=stage.workers,
            min_fetch_interval=0.25,
            max_fetch_interval=1.0,
            lease_ttl_seconds=LEASE_S,
            terminal_flush_batch_size=ACKNOWLEDGED_TOGETHER,
            retry_strategy=_AsTold(),
            ack_policy=AckPolicy.NACK_ON_ERROR,
        )
        patch_subscriber(subscriber)

        turns.refill = fetch_now(subscriber)

        @subscriber
        async def handle(row: OutboxInnerMessage) -> None:
            self._working[row.id] = row.acquired_token
            tenant_id, document = tenant_of(row), (row.headers or {}).get(DOCUMENT_HEADER)
            try:
                async with turns.hold(tenant_id, document):
                    again = await settler.process(_record(row))
            except StoppingError:
                raise _AgainError(0.0) from None
            except DocumentBusyError:
                raise _AgainError(_BUSY_S) from None
            finally:
                self._working.pop(row.id, None)
                turns.ended(tenant_id)
            if again is not None:
                raise _AgainError(again.after_s)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Consume for as long as the block lasts, then drain: what was begun is finished, within
        `DRAIN_S`.
        """
        await self._broker.start()
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            for settler in self._settlers:
                settler.stop()
            self._client.stop()
            await self._broker.stop()
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    @staticmethod
    def connections(settlers: Sequence[RecordProcessor], publishing: int = 4) -> int:
        """How many connections the engine needs for these stages.

        Args:
            settlers: processors of the stages that run.
            publishing: for publishing and acknowledging, >= 1.
        """
        return len(settlers) + publishing

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 4)
            tokens = list(
                {token for token in self._working.values() if token is not None}
                | self._client.leases
            )
            if not tokens:
                continue
            try:
                async with self._database.system("renew leases") as connection:
                    await connection.execute(sql("renew_leases"), tokens)
            except LivedexError as exc:
                log.warning("leases are not renewed: %s", exc)
            except Exception:
                log.exception("leases could not be renewed; it is tried again")


def _record(row: OutboxInnerMessage) -> Record:
    headers = {str(k): str(v) for k, v in (row.headers or {}).items()}
    return Record(f"queue-{row.id}", row.queue, row.payload, {"row": row.id}, headers)


def _whose(tenant_id: str, document_id: str | None) -> dict[str, str]:
    """The headers that say whose a row is; of the document a hash, which is short and the same for
    all of its versions.
    """
    if document_id is None:
        return {TENANT_HEADER: tenant_id}
    document = hashlib.sha256(f"{tenant_id}/{document_id}".encode("utf-8", "replace")).hexdigest()[
        :32
    ]
    return {TENANT_HEADER: tenant_id, DOCUMENT_HEADER: document}


def _kind(exc: Exception) -> str:
    """What kind of error it is, by the driver's name for it: a full disk, say.

    Its words may hold values of rows.
    """
    driver = getattr(exc, "orig", None)
    return type(exc if driver is None else driver.__cause__ or driver).__name__
