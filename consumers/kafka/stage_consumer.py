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

POLL_MS = 20  # an empty poll waits so long, and FastStream once more after it
MOST_BYTES = 32 * 1024 * 1024  # of records in memory, a stage
REVOCATION_GRACE_S = 3.0  # before partitions go to another member: for what is being worked on
REJOIN_AFTER_S = 60.0  # without a poll: it joins its group anew
RESTART_AFTER_S = 150.0  # without a poll: that did not help, and the process should be restarted
_COMMIT_EVERY_S = 0.1
_LOOK_EVERY_S = 1.0
_COMMIT_TIMEOUT_S = 10.0


class StageConsumer:
    """Reads the topic of a stage and settles what it reads.

    Args:
        on_error: told what reading met, and None once it works again.
        on_expired: told how many records retention removed before they were read.
        until_back: returns, of a topic and a key whose partition has no leader, what is set once it
            has one; else None.
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
            most_bytes=MOST_BYTES,
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
            parser=_as_it_is,
            decoder=_raw,
        )

        @self._subscriber
        async def take(records: tuple[KafkaRecord, ...]) -> None:
            for partition, batch in itertools.groupby(
                records, lambda raw: TopicPartition(raw.topic, raw.partition)
            ):
                self.window.take(partition, batch)
            self._hold_or_go_on()

    async def run_commits(self) -> None:
        """Commit what has ended, for ever."""
        while True:
            try:
                await asyncio.wait_for(self._moved.wait(), _LOOK_EVERY_S)
            except TimeoutError:
                await self._pass_over()
            self._moved.clear()
            await self.commit()
            await asyncio.sleep(_COMMIT_EVERY_S)

    async def _pass_over(self) -> None:
        """Note what no consumer is given: the ends of transactions, and records of those that were
        given up.
        """
        consumer = self._subscriber.consumer
        if consumer is None:
            return
        for partition in consumer.assignment():
            if not has_leader(client_of(consumer), partition):
                continue  # where nothing was read of it yet, its position is not known for as long
            try:
                position = await consumer.position(partition)
            except (KafkaError, IllegalStateError):
                return  # handed out anew
            if self._polling:  # all that was read is in the window
                self.window.skip_to(partition, position)

    async def commit(self, timeout_s: float = _COMMIT_TIMEOUT_S) -> None:
        """Commit what has ended up to now; what could not be committed is tried again soon."""
        await self._partitions.noted()
        offsets = self.window.to_commit()
        consumer = self._subscriber.consumer
        if not offsets or consumer is None:
            return
        try:
            await asyncio.wait_for(consumer.commit(offsets), timeout_s)
        except (CommitFailedError, IllegalStateError) as exc:
            log.info(
                "%s: not committed yet, the partitions are handed out anew: %s",
                self.settler.stage.name,
                type(exc).__name__,
            )
            self._moved.set()  # those that stay here may have nothing new for a long time
        except (KafkaError, TimeoutError) as exc:
            log.warning(
                "%s: not committed yet: %s", self.settler.stage.name, exc or type(exc).__name__
            )
            self._moved.set()
        else:
            self.window.committed(offsets)

    def watch_polls(self) -> None:
        """Note when the consumer polls, and what it meets."""
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

    async def look(self) -> None:
        """Find out what became of the partitions that are read."""
        consumer = self._subscriber.consumer
        if consumer is None or self._stopping:
            return
        try:
            await self._partitions.look(consumer)
        except (KafkaError, IllegalStateError, TimeoutError, UnicodeDecodeError) as exc:
            log.info(
                "%s: its partitions could not be looked at: %s",
                self.settler.stage.name,
                exc or type(exc).__name__,
            )

    def stall_reason(self) -> str | None:
        """That it has not polled for too long, which is nothing that an outage of Kafka would do;
        None while it does.
        """
        silent_s = time.monotonic() - self.polled_at
        return (
            f"{self.settler.stage.name} has not polled Kafka for {silent_s:.0f} s"
            if silent_s > RESTART_AFTER_S
            else None
        )

    async def _read_again(self, consumer: AIOKafkaConsumer) -> None:
        """Go back to the end of the window: an error in one partition takes along what was read of
        the others.
        """
        for partition in consumer.assignment():
            try:
                at = self.window.read_up_to(partition)
                if at is None:
                    at = await consumer.committed(partition) or 0
                consumer.seek(partition, at)
            except (KafkaError, IllegalStateError) as exc:
                log.info(
                    "%s: handed out anew while reading again: %s", self.settler.stage.name, exc
                )

    async def restart(self) -> None:
        """Leave the group and join it anew."""
        await self._subscriber.stop()
        await self.window.end()
        await self._subscriber.start()
        self.watch_polls()

    async def drain(self, timeout_s: float) -> None:
        """Begin nothing new, finish what was begun, commit it."""
        self._stopping = True
        self.settler.stop()
        self._hold_or_go_on()
        if not await self.window.wait_idle(timeout_s):
            log.warning(
                "%s: records are still worked on; they are read again at the next start",
                self.settler.stage.name,
            )
        await self.commit(min(timeout_s, 5.0))
        await self.window.end()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Partitions may go to another member."""
        self.window.close(revoked)
        await self.window.wait_idle(REVOCATION_GRACE_S)
        await self.commit(REVOCATION_GRACE_S)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """These are ours now, and no others."""
        self._paused.clear()
        self.window.assign(assigned)
        if (consumer := self._subscriber.consumer) is not None:
            self._partitions.assigned(consumer, assigned)
        self._moved.set()  # what could not be committed while they were handed out
        self._hold_or_go_on()

    def _progressed(self) -> None:
        self._moved.set()
        if self._paused:
            self._hold_or_go_on()

    def _hold_or_go_on(self) -> None:
        """Pause the partitions while the window is full, or those of which much waits for
        partitions without a leader.
        """
        consumer = self._subscriber.consumer
        if consumer is None:
            return
        assigned = set(consumer.assignment())
        wanted = (
            assigned
            if self._stopping or self.window.full
            else {p for p in assigned if self.window.should_pause(p)}
        )
        if new := wanted - self._paused:
            consumer.pause(*new)
        if again := (self._paused - wanted) & assigned:
            consumer.resume(*again)
        self._paused = wanted


def _sticky() -> type[StickyPartitionAssignor]:
    """An assignor of our own: the client keeps what a member had in its class, which the groups of
    one process would share.
    """
    return type("Sticky", (StickyPartitionAssignor,), {})


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types for it
    def __init__(self, stage: StageConsumer) -> None:
        self._stage = stage

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._stage.on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._stage.on_partitions_assigned(assigned)


async def _as_it_is(batch: tuple[KafkaRecord, ...]) -> KafkaMessage:
    """FastStream's own parser decodes headers, and drops a batch whose headers are no UTF-8."""
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
