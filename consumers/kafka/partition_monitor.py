"""Detect new partitions, recreated topics and expired records.

Invariant: offsets of a recreated topic are never taken for those of the old one: a log that ends
before the offset read from it is another log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiokafka.errors import IllegalStateError, KafkaError

from livedex.consumers.kafka.compat import client_of
from livedex.consumers.kafka.in_flight_window import InFlightWindow
from livedex.consumers.kafka.partition_leaders import has_leader

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, TopicPartition

log = logging.getLogger(__name__)

CHECK_EVERY_S = 5.0
_OFFSETS_TIMEOUT_S = 10.0
_COMMITTED_S = 5.0


class PartitionMonitor:
    """Compares the offsets read by a stage with those of its topic.

    Args:
        stage: its name.
        window: of the stage.
        on_expired: called with the number of records deleted before they were consumed; 0: unknown.
    """

    def __init__(
        self, stage: str, window: InFlightWindow, on_expired: Callable[[int], None]
    ) -> None:
        self._stage, self._window, self._on_expired = stage, window, on_expired
        self._start: dict[TopicPartition, int | None] = {}
        self._told_up_to: dict[TopicPartition, int] = {}
        self._noting: asyncio.Task[None] | None = None
        self._partitions = 0
        self._due = 0.0

    def assigned(self, consumer: AIOKafkaConsumer, partitions: set[TopicPartition]) -> None:
        """Record the committed offsets of new partitions, before anything is committed.

        Args:
            consumer: of the stage.
            partitions: all partitions of this member.
        """
        new = {p for p in partitions if p not in self._start}
        self._start = {p: start for p, start in self._start.items() if p in partitions}
        self._told_up_to = {p: at for p, at in self._told_up_to.items() if p in partitions}
        self._due = 0.0
        if new:
            before, self._noting = (
                self._noting,
                asyncio.create_task(self._note(consumer, new), name=f"offsets of {self._stage}"),
            )
            if before is not None:
                before.cancel()

    async def noted(self) -> None:
        """Wait until the committed offsets are recorded; then commits are allowed."""
        if self._noting is not None and not self._noting.done():
            await asyncio.wait([self._noting], timeout=_COMMITTED_S)

    async def _note(self, consumer: AIOKafkaConsumer, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            try:
                async with asyncio.timeout(_COMMITTED_S):
                    self._start[partition] = await consumer.committed(partition)
            except (KafkaError, IllegalStateError, TimeoutError) as exc:
                log.info(
                    "%s: the committed offset of %s-%d is unknown: %s",
                    self._stage,
                    partition.topic,
                    partition.partition,
                    exc,
                )

    async def check(self, consumer: AIOKafkaConsumer) -> None:
        """Compare the offsets read with the topic, every few seconds.

        Args:
            consumer: of the stage.

        Raises:
            KafkaError: not now.
            IllegalStateError: during a rebalance.
            TimeoutError: not now.
        """
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + CHECK_EVERY_S
        self._count(consumer)
        partitions = [
            p
            for p in consumer.assignment()
            if p in self._start and has_leader(client_of(consumer), p)
        ]
        if not partitions:
            return
        async with asyncio.timeout(_OFFSETS_TIMEOUT_S):
            # before the end offsets, which only grow
            reached = {p: self._window.read_up_to(p) for p in partitions}
            ends, begins = (
                await consumer.end_offsets(partitions),
                await consumer.beginning_offsets(partitions),
            )
        for partition in partitions:
            at = reached[partition] or self._start[partition] or 0
            if at > ends[partition]:
                self._begin_anew(consumer, partition, at, ends[partition])
            else:
                self._find_expired(partition, begins[partition])

    def _count(self, consumer: AIOKafkaConsumer) -> None:
        topics = {p.topic for p in consumer.assignment()}
        count = sum(len(consumer.partitions_for_topic(topic) or ()) for topic in topics)
        if 0 < self._partitions < count:
            log.warning(
                "%s: its topic has %d partitions now, and had %d",
                self._stage,
                count,
                self._partitions,
            )
        self._partitions = count or self._partitions

    def _begin_anew(
        self, consumer: AIOKafkaConsumer, partition: TopicPartition, at: int, end: int
    ) -> None:
        log.error(
            "%s: %s-%d ends at offset %d, and %d was read: the topic was made again, and is "
            "read from its beginning",
            self._stage,
            partition.topic,
            partition.partition,
            end,
            at,
        )
        self._on_expired(0)
        self._window.restart(partition)
        self._start[partition], self._told_up_to[partition] = 0, 0
        consumer.seek(partition, 0)

    def _find_expired(self, partition: TopicPartition, begin: int) -> None:
        """Count records before the beginning of the log that neither the group had committed nor
        this process has read.
        """
        told = max(self._start[partition] or 0, self._told_up_to.get(partition, 0))
        unread = self._window.pop_gaps(partition)
        gap = sum(
            max(0, min(begin if last is None else last, begin) - max(first, told))
            for first, last in unread
        )
        self._told_up_to[partition] = max(begin, told)
        if gap > 0:
            log.error(
                "%s: %d records of %s-%d were removed before they were read",
                self._stage,
                gap,
                partition.topic,
                partition.partition,
            )
            self._on_expired(gap)
