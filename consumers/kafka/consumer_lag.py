"""How much waits for each stage on Kafka: what stands behind the committed offset of its group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from livedex.consumers.kafka.compat import (
    accept_non_utf8_header_names,
    client_of,
    limit_metadata_requests,
)
from livedex.consumers.kafka.connection import (
    METADATA_AGE_MS,
    client_arguments,
    diagnose_connection_failure,
    translate_kafka_errors,
)
from livedex.consumers.kafka.partition_leaders import (
    has_leader,
    offline_partitions,
)
from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.consumer_lag import StageLag
from livedex.pipeline.events.event import CHANGED
from livedex.pipeline.flow import STAGES
from livedex.pipeline.settings.kafka import KafkaSettings

_TIMEOUT_S = 10.0
_OLDEST_S = 2.0


def consumer_group_id(settings: KafkaSettings, stage: str) -> str:
    """Return the consumer group of a stage.

    Args:
        settings: of Kafka.
        stage: its name.
    """
    return f"{settings.prefix}livedex.{stage}"


class KafkaConsumerLag:
    """Reads the consumer lag of each stage from Kafka; connects at the first call.

    Implements `livedex.pipeline.events.consumer_lag.ConsumerLag`.
    """

    def __init__(self, settings: KafkaSettings, servers: tuple[str, ...]) -> None:
        self._settings = settings
        self._servers = servers
        self._clients: tuple[AIOKafkaConsumer, AIOKafkaAdminClient] | None = None
        self._lock = asyncio.Lock()

    async def waiting(self) -> dict[str, StageLag]:
        """Return the pending events by stage."""
        async with self._connection() as (consumer, admin):
            found: dict[str, StageLag] = {}
            for stage in STAGES:
                topic = self._settings.prefix + stage.takes
                left, oldest = 0, []
                committed, begins, ends = await self._offsets(consumer, admin, stage.name, topic)
                for partition, end in ends.items():
                    at = max(committed.get(partition, 0), begins[partition])
                    if end > at:
                        left += end - at
                        oldest.append((partition, at))
                found[stage.name] = StageLag(
                    left, await _oldest_s(consumer, oldest) if oldest else 0.0
                )
            return found

    async def mark(self) -> Mapping[TopicPartition, int]:
        """Return the end offsets of the changes accepted so far.

        Raises:
            OutageError: a partition has no leader.
        """
        async with self._connection() as (consumer, admin):
            topic = self._settings.prefix + CHANGED
            _, _, ends = await self._offsets(consumer, admin, "chunk", topic)
            if offline := offline_partitions(client_of(consumer), topic):
                raise OutageError(
                    "broker",
                    f"{len(offline)} partitions of {topic} have no leader: what was accepted "
                    "there is not known",
                )
            return ends

    async def left(self, mark: object) -> int:
        """Return the number of changes before a mark that the chunk stage has not processed.

        Args:
            mark: of `mark`.
        """
        assert isinstance(mark, Mapping)
        async with self._connection() as (consumer, admin):
            committed, begins, _ = await self._offsets(
                consumer, admin, "chunk", self._settings.prefix + CHANGED
            )
        return sum(
            max(0, end - max(committed.get(p, 0), begins.get(p, 0))) for p, end in mark.items()
        )

    async def close(self) -> None:
        """Disconnect."""
        clients, self._clients = self._clients, None
        if clients is not None:
            await clients[0].stop()
            await clients[1].close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[AIOKafkaConsumer, AIOKafkaAdminClient]]:
        async with self._lock:
            with translate_kafka_errors("backlog"):
                try:
                    async with asyncio.timeout(_TIMEOUT_S):
                        if self._clients is None:
                            self._clients = await self._connect()
                        yield self._clients
                except Exception:
                    try:
                        await asyncio.wait_for(self.close(), _TIMEOUT_S)
                    except TimeoutError:
                        self._clients = None
                    raise

    async def _connect(self) -> tuple[AIOKafkaConsumer, AIOKafkaAdminClient]:
        arguments = client_arguments(self._settings, self._servers) | {
            "request_timeout_ms": 5000,
            "metadata_max_age_ms": METADATA_AGE_MS,
        }
        async with AsyncExitStack() as stack:
            consumer = AIOKafkaConsumer(
                **arguments, client_id="livedex-backlog", enable_auto_commit=False
            )
            stack.push_async_callback(consumer.stop)
            async with diagnose_connection_failure(self._settings, self._servers):
                await consumer.start()
            limit_metadata_requests(client_of(consumer))
            admin = AIOKafkaAdminClient(**arguments, client_id="livedex-backlog")
            stack.push_async_callback(admin.close)
            await admin.start()
            stack.pop_all()
            return consumer, admin

    async def _offsets(
        self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, stage: str, topic: str
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return committed, first and end offsets of a topic's partitions; first and end offsets
        only for those with a leader.

        Raises:
            OutageError: the topic is missing.
        """
        described = await admin.describe_topics([topic])
        partitions = [TopicPartition(topic, p["partition"]) for p in described[0]["partitions"]]
        if not partitions:
            raise OutageError(
                "broker", f"the topic {topic} is not there: start a role, or run `livedex migrate`"
            )
        stored = await admin.list_consumer_group_offsets(
            consumer_group_id(self._settings, stage), partitions=partitions
        )
        committed = {p: max(o.offset, 0) for p, o in stored.items()}
        client_of(consumer).add_topic(topic)
        await client_of(consumer).force_metadata_update()
        partitions = [p for p in partitions if has_leader(client_of(consumer), p)]
        return (
            committed,
            await consumer.beginning_offsets(partitions),
            await consumer.end_offsets(partitions),
        )


async def _oldest_s(consumer: AIOKafkaConsumer, places: list[tuple[TopicPartition, int]]) -> float:
    """Return the age of the oldest pending record in seconds, by its timestamp."""
    consumer.assign([partition for partition, _ in places])
    for partition, offset in places:
        consumer.seek(partition, offset)
    seen: set[TopicPartition] = set()
    oldest, end = time.time(), time.monotonic() + _OLDEST_S
    while len(seen) < len(places) and time.monotonic() < end:
        try:
            found = await consumer.getmany(timeout_ms=100, max_records=len(places))
        except UnicodeDecodeError:
            accept_non_utf8_header_names()
            continue
        for partition, records in found.items():
            seen.add(partition)
            consumer.pause(partition)
            oldest = min(oldest, records[0].timestamp / 1000)
    consumer.unsubscribe()
    return max(0.0, time.time() - oldest)
