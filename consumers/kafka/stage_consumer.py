"""One stage on Kafka: a subscriber of FastStream that only reads, and a window that settles and
says what to commit.

The handler takes a batch into the window and returns, so that the consumer polls on while documents
are worked on: a slow document costs no membership. When the window is full the partitions are
paused, and polled all the same. Offsets are committed by hand.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage

from livedex.consumers.kafka.compat import (
    accept_non_utf8_header_names,
    client_of,
    limit_metadata_requests,
)
from livedex.consumers.kafka.consumer_lag import consumer_group_id
from livedex.consumers.kafka.in_flight_window import InFlightWindow, KafkaRecord
from livedex.consumers.kafka.output_topics import OUTPUT_TOPICS
from livedex.consumers.kafka.partition_leaders import has_leader
from livedex.consumers.kafka.partition_monitor import PartitionMonitor
from livedex.consumers.kafka.records import decode_record
from livedex.consumers.record_processor import RecordProcessor
from livedex.pipeline.settings.kafka import KafkaSettings

log = logging.getLogger(__name__)

POLL_MS = 20  # of an empty poll; FastStream waits once more after it
MAX_BYTES = 32 * 1024 * 1024  # of records in memory, for each stage
REVOCATION_GRACE_S = 3.0  # for records in processing, before partitions are revoked
REJOIN_AFTER_S = 60.0  # without a poll, the consumer rejoins its group
RESTART_AFTER_S = 150.0  # without a poll, the process reports itself as stalled
_COMMIT_EVERY_S = 0.1
_SKIP_EVERY_S = 1.0
_COMMIT_TIMEOUT_S = 10.0


class StageConsumer:
    """Consumes the topic of a stage and processes its records.

    Args:
        broker: of FastStream.
        settler: processes a record.
        settings: of Kafka.
        on_error: called with an error of reading, and with None once reading works again.
        on_expired: called with the number of records that retention deleted before they were
            consumed.
        until_back: for a topic and a key whose partition has no leader, returns an event that is
            set once it has one; otherwise None.

    Attributes:
        settler: as given.
        polled_at: monotonic seconds of the last poll.
        window: records in flight.
    """

    def __init__(
        self,
        broker: KafkaBroker,
        settler: RecordProcessor,
        settings: KafkaSettings,
        on_error: Callable[[str | None], None],
        on_expired: Callable[[int], None] = lambda _: None,
        until_back: Callable[[str, bytes | None], asyncio.Event | None] = lambda topic, key: None,
    ) -> None:
        self.settler = settler
        settler.read = decode_record
        self.polled_at = time.monotonic()
        self._on_error = on_error
        self._moved = asyncio.Event()
        self._paused: set[TopicPartition] = set()
        self._stopping = False
        self._polling = False
        self._failing = False
        leaves = (
            None
            if settler.stage.leaves in OUTPUT_TOPICS
            else settings.prefix + settler.stage.leaves
        )
        self.window = InFlightWindow(
            settler,
            settings.prefix,
            most_bytes=MAX_BYTES,
            progressed=self._progressed,
            until_back=lambda raw: until_back(leaves, raw.key) if leaves else None,
        )
        self._partitions = PartitionMonitor(settler.stage.name, self.window, on_expired)
        self._subscriber = broker.subscriber(
            settings.prefix + settler.stage.takes,
            group_id=consumer_group_id(settings, settler.stage.name),
            batch=True,
            batch_timeout_ms=POLL_MS,
            max_records=4 * settler.stage.workers,
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.MANUAL,
            listener=_Listener(self),
            partition_assignment_strategy=(_sticky(),),
            session_timeout_ms=int(settings.session_timeout_s * 1000),
            heartbeat_interval_ms=int(settings.session_timeout_s * 300),
            max_poll_interval_ms=int(settings.max_poll_interval_s * 1000),
            rebalance_timeout_ms=int(
                1000 * max(settings.session_timeout_s, 3 * REVOCATION_GRACE_S)
            ),
            fetch_max_wait_ms=500,
            isolation_level="read_committed",
            parser=_parse_raw,
            decoder=_raw,
        )

        @self._subscriber
        async def take(records: tuple[KafkaRecord, ...]) -> None:
            for partition, batch in itertools.groupby(
                records, lambda raw: TopicPartition(raw.topic, raw.partition)
            ):
                self.window.take(partition, batch)
            self._pause_or_resume()

    async def run_commits(self) -> None:
        """Commit completed records, until cancelled."""
        while True:
            try:
                await asyncio.wait_for(self._moved.wait(), _SKIP_EVERY_S)
            except TimeoutError:
                await self._skip_unreadable()
            self._moved.clear()
            await self.commit()
            await asyncio.sleep(_COMMIT_EVERY_S)

    async def _skip_unreadable(self) -> None:
        """Skip offsets that no consumer gets: ends of transactions and aborted records."""
        consumer = self._subscriber.consumer
        if consumer is None:
            return
        for partition in consumer.assignment():
            if not has_leader(client_of(consumer), partition):
                continue  # its position may be unknown as long as it has no leader
            try:
                position = await consumer.position(partition)
            except (KafkaError, IllegalStateError):
                return  # rebalance
            if self._polling:  # all records read are in the window
                self.window.skip_to(partition, position)

    async def commit(self, timeout_s: float = _COMMIT_TIMEOUT_S) -> None:
        """Commit completed records; a failed commit is retried soon.

        Args:
            timeout_s: seconds, > 0.
        """
        await self._partitions.noted()
        offsets = self.window.to_commit()
        consumer = self._subscriber.consumer
        if not offsets or consumer is None:
            return
        try:
            await asyncio.wait_for(consumer.commit(offsets), timeout_s)
        except (CommitFailedError, IllegalStateError) as exc:
            log.info(
                "%s: not committed yet because of a rebalance: %s",
                self.settler.stage.name,
                type(exc).__name__,
            )
            self._moved.set()  # a partition that stays may get no new record for a long time
        except (KafkaError, TimeoutError) as exc:
            log.warning(
                "%s: not committed yet: %s", self.settler.stage.name, exc or type(exc).__name__
            )
            self._moved.set()
        else:
            self.window.committed(offsets)

    def watch_polls(self) -> None:
        """Record polls and their errors, by wrapping the consumer's `getmany`."""
        consumer = self._subscriber.consumer
        assert consumer is not None
        poll = consumer.getmany

        async def getmany(*partitions: TopicPartition, **options: Any) -> Any:
            self._polling = True
            try:
                found = await poll(*partitions, **options)
            except UnicodeDecodeError:
                accept_non_utf8_header_names()
                await self._read_again(consumer)
                return {}
            except KafkaError as exc:
                self._failing = True
                self._on_error(f"reading {self.settler.stage.takes}: {type(exc).__name__}: {exc}")
                await self._read_again(consumer)
                raise
            finally:
                self._polling = False
            self.polled_at = time.monotonic()
            if self._failing:
                self._failing = False
                self._on_error(None)
            return found

        consumer.getmany = getmany
        limit_metadata_requests(client_of(consumer))
        self.polled_at = time.monotonic()

    @property
    def client(self) -> Any:
        """Return the connections of the consumer; None before it is started."""
        consumer = self._subscriber.consumer
        return None if consumer is None else client_of(consumer)

    async def check_partitions(self) -> None:
        """Check the partitions of this member for new topics and lost records."""
        consumer = self._subscriber.consumer
        if consumer is None or self._stopping:
            return
        try:
            await self._partitions.check(consumer)
        except (KafkaError, IllegalStateError, TimeoutError, UnicodeDecodeError) as exc:
            log.info(
                "%s: its partitions could not be checked: %s",
                self.settler.stage.name,
                exc or type(exc).__name__,
            )

    def stall_reason(self) -> str | None:
        """Return a message if the consumer has not polled for too long, which no outage causes."""
        silent_s = time.monotonic() - self.polled_at
        return (
            f"{self.settler.stage.name} has not polled Kafka for {silent_s:.0f} s"
            if silent_s > RESTART_AFTER_S
            else None
        )

    async def _read_again(self, consumer: AIOKafkaConsumer) -> None:
        """Seek to the end of the window: an error in one partition discards the records read from
        the others.
        """
        for partition in consumer.assignment():
            try:
                at = self.window.read_up_to(partition)
                if at is None:
                    at = await consumer.committed(partition) or 0
                consumer.seek(partition, at)
            except (KafkaError, IllegalStateError) as exc:
                log.info("%s: rebalance while seeking: %s", self.settler.stage.name, exc)

    async def restart(self) -> None:
        """Leave the group and rejoin it."""
        await self._subscriber.stop()
        await self.window.end()
        await self._subscriber.start()
        self.watch_polls()

    async def drain(self, timeout_s: float) -> None:
        """Start no new record, finish those in processing, and commit.

        Args:
            timeout_s: seconds to wait for records in processing.
        """
        self._stopping = True
        self.settler.stop()
        self._pause_or_resume()
        if not await self.window.wait_idle(timeout_s):
            log.warning(
                "%s: some records are still in processing; they are redelivered",
                self.settler.stage.name,
            )
        await self.commit(min(timeout_s, 5.0))
        await self.window.end()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Finish and commit partitions that are revoked.

        Args:
            revoked: partitions.
        """
        self.window.close(revoked)
        await self.window.wait_idle(REVOCATION_GRACE_S)
        await self.commit(REVOCATION_GRACE_S)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Start processing the assigned partitions.

        Args:
            assigned: all partitions of this member.
        """
        self._paused.clear()
        self.window.assign(assigned)
        if (consumer := self._subscriber.consumer) is not None:
            self._partitions.assigned(consumer, assigned)
        self._moved.set()  # commits that failed during the rebalance
        self._pause_or_resume()

    def _progressed(self) -> None:
        self._moved.set()
        if self._paused:
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Pause all partitions while the window is full, and those with many records that wait for
        a leader; resume the others.
        """
        consumer = self._subscriber.consumer
        if consumer is None:
            return
        assigned = set(consumer.assignment())
        to_pause = (
            assigned
            if self._stopping or self.window.full
            else {p for p in assigned if self.window.should_pause(p)}
        )
        if new := to_pause - self._paused:
            consumer.pause(*new)
        if again := (self._paused - to_pause) & assigned:
            consumer.resume(*again)
        self._paused = to_pause


def _sticky() -> type[StickyPartitionAssignor]:
    """Return a new assignor class: the client stores the previous assignment in the class, and the
    groups of a process must not share it.
    """
    return type("Sticky", (StickyPartitionAssignor,), {})


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types for it
    def __init__(self, stage: StageConsumer) -> None:
        self._stage = stage

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._stage.on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._stage.on_partitions_assigned(assigned)


async def _parse_raw(batch: tuple[KafkaRecord, ...]) -> KafkaMessage:
    """Return undecoded records: the parser of FastStream drops batches with undecodable headers."""
    return KafkaMessage(
        body=b"",
        raw_message=batch,
        message_id=f"{batch[0].topic}-{batch[0].partition}-{batch[0].offset}",
        consumer=None,  # type: ignore[arg-type]
    )


async def _raw(message: KafkaMessage) -> tuple[KafkaRecord, ...]:
    raw = message.raw_message
    assert isinstance(raw, tuple)
    return raw
