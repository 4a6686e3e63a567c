"""Track in-flight records between fetch and commit.

Invariants: records of one key are processed one after another, in the order of their offsets,
except that a record with a long retry delay lets the others continue (versions order them), and
that a record superseded by a newer one of its key ends at once (`consumers/replacement.py`);
workers serve tenants in turn, whatever the order in a partition; an offset is committed only when
every record before it has a durable outcome; records of a revoked partition are neither started nor
committed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from livedex.consumers.fair_semaphore import FairSemaphore
from livedex.consumers.kafka.partition_offsets import PartitionOffsets
from livedex.consumers.kafka.records import from_kafka
from livedex.consumers.record_processor import Record, RecordProcessor, StoppingError

if TYPE_CHECKING:
    from aiokafka import ConsumerRecord, TopicPartition

log = logging.getLogger(__name__)

_UNEXPECTED_ERROR_DELAY_S = 1.0
_MAX_BLOCKING_DELAY_S = 5.0  # a longer retry delay lets later records of the key continue
READ_AHEAD = 128  # runnable keys for each worker, from which tenants are served in turn
# records of a partition of which some wait for a leader
_MAX_BEHIND_HELD = 8 * READ_AHEAD
_MAX_INCOMPLETE = 200_000  # completed offsets behind an incomplete one
KafkaRecord: TypeAlias = "ConsumerRecord[Any, Any]"
# partition, which log of it, and key or, without one, offset
OrderingKey: TypeAlias = tuple["TopicPartition", int, bytes | int]


class InFlightWindow:
    """Processes records of several partitions concurrently.

    Args:
        settler: processes a record.
        prefix: of the installation's topics.
        most_bytes: of records in memory; above it the window is full.
        progressed: called after each record with an outcome.
        until_back: for a record whose next partition has no leader, returns an event that is set
            once it has one; otherwise None.
    """

    def __init__(
        self,
        settler: RecordProcessor,
        prefix: str,
        *,
        most_bytes: int,
        progressed: Callable[[], None],
        until_back: Callable[[KafkaRecord], asyncio.Event | None] = lambda raw: None,
    ) -> None:
        self._settler = settler
        self._prefix = prefix
        self._most_bytes = most_bytes
        self._progressed = progressed
        self._until_back = until_back
        self._held: Counter[TopicPartition] = Counter()
        self._slots = FairSemaphore(settler.stage.workers, max(1, settler.stage.workers // 4))
        self._partitions: dict[TopicPartition, PartitionOffsets] = {}
        self._lanes: dict[OrderingKey, deque[KafkaRecord]] = {}
        self._tasks: dict[OrderingKey, asyncio.Task[None]] = {}
        self._newest: dict[OrderingKey, KafkaRecord] = {}
        self._newer: dict[OrderingKey, asyncio.Event] = {}
        self._open_of_lane: Counter[OrderingKey] = Counter()
        self._waiting = 0
        self._sleeping = 0
        self._working = 0
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Return whether reading must pause."""
        # records behind another one of their key cost bytes, but no place
        runnable = len(self._lanes) - self._sleeping
        return (
            runnable >= READ_AHEAD * self._settler.stage.workers
            or self._bytes >= self._most_bytes
            or self._is_far_ahead
        )

    @property
    def _is_far_ahead(self) -> bool:
        return any(len(state.taken) >= _MAX_INCOMPLETE for state in self._partitions.values())

    @property
    def size(self) -> int:
        """Return the number of records without an outcome."""
        return self._waiting

    def take(self, partition: TopicPartition, records: Iterable[KafkaRecord]) -> None:
        """Start processing records, in the order of their offsets; known ones are ignored.

        Args:
            partition: of the records.
            records: as read.
        """
        state = self._partitions.get(partition)
        if state is None:
            return  # revoked in the meantime
        for raw in records:
            # the client never goes back behind what it has committed
            if state.committed is not None and raw.offset < state.committed:
                log.warning(
                    "%s-%d restarts at offset %d: the topic was recreated",
                    raw.topic,
                    raw.partition,
                    raw.offset,
                )
                self.restart(partition)
                state = self._partitions[partition]
            if raw.offset <= state.highest:
                continue
            state.take(raw.offset)
            self._waiting += 1
            self._bytes += _size(raw)
            lane = _lane_of(partition, state.log, raw)
            self._open_of_lane[lane] += 1
            self._newest[lane] = raw
            if (newer := self._newer.pop(lane, None)) is not None:
                newer.set()
            if lane in self._lanes:
                self._lanes[lane].append(raw)
                continue
            self._begin(lane, state, raw)

    def _begin(
        self, lane: OrderingKey, state: PartitionOffsets, raw: KafkaRecord, wait_s: float = 0.0
    ) -> None:
        self._lanes[lane] = deque([raw])
        self._tasks[lane] = asyncio.create_task(self._work(lane, state, wait_s))

    def restart(self, partition: TopicPartition) -> None:
        """Treat the next records as those of a recreated topic; records of the old one are still
        processed, and commit nothing.

        Args:
            partition: of the recreated topic.
        """
        if (old := self._partitions.get(partition)) is not None:
            self._partitions[partition] = PartitionOffsets(log=old.log + 1, open=old.open)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Start no new record of partitions that may be revoked.

        Args:
            partitions: of this member.
        """
        for partition in partitions:
            if partition in self._partitions:
                self._partitions[partition].open.clear()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Process exactly these partitions; work on those that stay continues.

        Args:
            partitions: of this member.
        """
        for lost in [p for p in self._partitions if p not in partitions]:
            self._forget(lost)
        for partition in partitions:
            self._partitions.setdefault(partition, PartitionOffsets()).open.set()

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no record is in processing; return False after a timeout.

        Args:
            timeout_s: seconds, >= 0.
        """
        deadline = time.monotonic() + timeout_s
        while self._working:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True

    def to_commit(self) -> dict[TopicPartition, int]:
        """Return the offsets to commit that moved since the last commit."""
        return {
            p: s.commit
            for p, s in self._partitions.items()
            if s.commit is not None and s.commit != s.committed
        }

    def read_up_to(self, partition: TopicPartition) -> int | None:
        """Return the offset after the last record read; None before the first.

        Args:
            partition: of this member.
        """
        state = self._partitions.get(partition)
        return None if state is None or state.highest < 0 else state.highest + 1

    def pop_gaps(self, partition: TopicPartition) -> list[tuple[int, int | None]]:
        """Return the ranges of unread offsets, each once; the last one is still open."""
        state = self._partitions.get(partition)
        return [] if state is None else state.pop_gaps()

    def skip_to(self, partition: TopicPartition, position: int) -> None:
        """Record that no more records come before a position; ignored while any is incomplete.

        Args:
            partition: of this member.
            position: of the consumer.
        """
        state = self._partitions.get(partition)
        if (
            state is not None
            and state.open.is_set()
            and not state.taken
            and position > max(state.commit or 0, state.highest)
        ):
            state.commit = position
            state.skip_to(position)

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        """Record committed offsets.

        Args:
            offsets: by partition.
        """
        for partition, offset in offsets.items():
            if partition in self._partitions:
                self._partitions[partition].committed = offset

    async def end(self) -> None:
        """Cancel all processing; cancelled records are redelivered unchanged."""
        tasks = list(self._tasks.values())
        self.assign(())
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, partition: TopicPartition) -> None:
        del self._partitions[partition]
        for lane in [lane for lane in self._lanes if lane[0] == partition]:
            self._tasks.pop(lane).cancel()
            for raw in self._lanes.pop(lane):
                self._remove(lane, raw)

    def _remove(self, of: OrderingKey, raw: KafkaRecord) -> None:
        self._waiting -= 1
        self._bytes -= _size(raw)
        lane = _lane_of(of[0], of[1], raw)
        self._open_of_lane[lane] -= 1
        if not self._open_of_lane[lane]:
            del self._open_of_lane[lane], self._newest[lane]
            self._newer.pop(lane, None)

    async def _work(self, lane: OrderingKey, state: PartitionOffsets, wait_s: float | None) -> None:
        queue = self._lanes[lane]
        if wait_s:
            await self._sleep(lane, queue[0], wait_s)
        while queue:
            await state.open.wait()
            if (back := self._until_back(queue[0])) is not None:
                await self._hold(lane, back)
                continue
            try:
                wait_s = await self._process(lane, queue[0], state)
            except StoppingError:
                return  # no outcome: the record is redelivered
            own: OrderingKey = (lane[0], lane[1], queue[0].offset)
            if wait_s is not None and (wait_s <= _MAX_BLOCKING_DELAY_S or lane == own):
                await self._sleep(lane, queue[0], wait_s)
                continue
            raw = queue.popleft()
            if wait_s is not None:
                self._begin(own, state, raw, wait_s)
                continue
            self._remove(lane, raw)
            state.end(raw.offset)
            self._progressed()
        del self._lanes[lane], self._tasks[lane]

    async def _hold(self, lane: OrderingKey, back: asyncio.Event) -> None:
        """Wait, without a worker, until the partition of the next event has a leader."""
        self._sleeping += 1
        self._held[lane[0]] += 1
        try:
            self._progressed()
            await back.wait()
        finally:
            self._sleeping -= 1
            self._held[lane[0]] -= 1
            self._progressed()

    def should_pause(self, partition: TopicPartition) -> bool:
        """Return whether too many records of a partition wait for a leader to read more of it.

        Args:
            partition: of this member.
        """
        held, state = self._held[partition], self._partitions.get(partition)
        return held >= READ_AHEAD or (
            held > 0 and state is not None and len(state.taken) >= _MAX_BEHIND_HELD
        )

    async def _sleep(self, of: OrderingKey, raw: KafkaRecord, wait_s: float) -> None:
        """Wait until a record is retried, or superseded by a newer one.

        A sleeping record counts by its bytes only, so that it does not stop other records.
        """
        self._sleeping += 1
        end, lane = time.monotonic() + wait_s, _lane_of(of[0], of[1], raw)
        try:
            self._progressed()
            while (left_s := end - time.monotonic()) > 0 and not self._is_superseded(of, raw):
                newer = self._newer.setdefault(lane, asyncio.Event())
                with suppress(TimeoutError):
                    await asyncio.wait_for(newer.wait(), left_s)
        finally:
            self._sleeping -= 1

    def _is_superseded(self, of: OrderingKey, raw: KafkaRecord) -> bool:
        newest = self._newest.get(_lane_of(of[0], of[1], raw), raw)
        return newest is not raw and self._settler.is_superseded(
            self._record(raw), self._record(newest)
        )

    def _record(self, raw: KafkaRecord) -> Record:
        return from_kafka(raw, self._prefix)

    async def _process(
        self, of: OrderingKey, raw: KafkaRecord, state: PartitionOffsets
    ) -> float | None:
        """Return the seconds until the record is retried; None once it has its outcome.

        Raises:
            StoppingError: the process is stopping.
        """
        if self._is_superseded(of, raw):
            self._settler.record_superseded(self._record(raw))
            return None
        async with self._slots.slot(_tenant_of(raw)):
            if not state.open.is_set():
                return 0.0
            self._working += 1
            try:
                again = await self._settler.process(self._record(raw))
            except StoppingError:
                raise
            except Exception:
                log.exception(
                    "%s: offset %d of %s-%d is retried",
                    self._settler.stage.name,
                    raw.offset,
                    raw.topic,
                    raw.partition,
                )
                return _UNEXPECTED_ERROR_DELAY_S
            finally:
                self._working -= 1
        return None if again is None else again.after_s


def _lane_of(partition: TopicPartition, log_number: int, raw: KafkaRecord) -> OrderingKey:
    return partition, log_number, raw.offset if raw.key is None else raw.key


def _tenant_of(raw: KafkaRecord) -> str:
    """Return the tenant of a key TENANT/DOCUMENT; other keys share one."""
    tenant_id, slash, _ = (raw.key or b"").partition(b"/")
    return tenant_id.decode("utf-8", "replace") if slash else ""


def _size(raw: KafkaRecord) -> int:
    return len(raw.value or b"") + len(raw.key or b"") + 200
