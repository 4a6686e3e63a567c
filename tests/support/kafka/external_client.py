"""Kafka as somebody else sees it: fresh clients that know nothing of Livedex write records, and
read what stands there and what is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.producer import message_accumulator
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

TIMEOUT_S = 60.0
Headers = Sequence[tuple[str, bytes | None]]


async def wait_until(
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]], longest_s: float = TIMEOUT_S
) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(longest_s):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.02)


class ExternalKafkaClient:
    """Another system on the same Kafka.

    Args:
        servers: "host:port[,host:port]".
        prefix: of the installation's topics and groups.
    """

    def __init__(self, servers: str, prefix: str, **arguments: Any) -> None:
        self.servers, self.prefix, self._arguments = servers, prefix, arguments

    @asynccontextmanager
    async def producer(self, **arguments: Any) -> AsyncIterator[AIOKafkaProducer]:
        """A producer as anybody has one."""
        async with AIOKafkaProducer(
            bootstrap_servers=self.servers,
            **{"max_request_size": 8 * 1024 * 1024, "request_timeout_ms": 10_000}
            | self._arguments
            | arguments,
        ) as producer:
            yield producer

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        **more: Any,
    ) -> tuple[int, int]:
        """Write one record; its partition and offset."""
        async with self.producer() as producer:
            return await self.put(producer, topic, value, key, headers, **more)

    async def put(
        self,
        producer: AIOKafkaProducer,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers = (),
        **more: Any,
    ) -> tuple[int, int]:
        """Write one record; its partition and offset."""
        if key is None and value is None:  # which Java's producer writes, and this one refuses to
            await producer.client.force_metadata_update()
            sending = await producer._message_accumulator.add_message(
                TopicPartition(self.prefix + topic, 0), None, None, 10, headers=list(headers)
            )
            sent = await sending
        else:
            sent = await producer.send_and_wait(
                self.prefix + topic, value, key=key, headers=list(headers), **more
            )
        return sent.partition, sent.offset

    async def put_with_any_header_name(
        self,
        producer: AIOKafkaProducer,
        topic: str,
        partition: int,
        value: bytes,
        name: bytes,
        told: bytes,
    ) -> None:
        """Write one record with a header whose name is any bytes, as clients in C do."""

        class Name(str):
            def encode(self, *_: str) -> bytes:
                return name

        builder = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, -1, 1_000_000)
        builder.append(0, None, b"key", value, [(Name("name"), told)])
        with patch.object(
            message_accumulator, "DefaultRecordBatchBuilder", _DefaultRecordBatchBuilderPy
        ):
            batch = producer.create_batch()
            batch._builder = builder
            batch._relative_offset = 1
            batch.close()
            await (await producer.send_batch(batch, self.prefix + topic, partition=partition))

    async def records(self, topic: str) -> list[ConsumerRecord[Any, Any]]:
        """Every record of a topic, by partition and offset."""
        async with self._consumer() as consumer:
            places = await self._partitions(consumer, topic)
            ends = await consumer.end_offsets(places)
            consumer.assign(places)
            await consumer.seek_to_beginning()
            found: list[ConsumerRecord[Any, Any]] = []
            async with asyncio.timeout(TIMEOUT_S):
                while any([await consumer.position(place) < end for place, end in ends.items()]):
                    for batch in (await consumer.getmany(timeout_ms=200)).values():
                        found += batch
        return sorted(found, key=lambda record: (record.partition, record.offset))

    async def ends(self, topic: str) -> dict[int, int]:
        """Where each partition of a topic ends."""
        async with self._consumer() as consumer:
            return {
                p.partition: end
                for p, end in (
                    await consumer.end_offsets(await self._partitions(consumer, topic))
                ).items()
            }

    async def committed(self, topic: str, stage: str) -> dict[int, int]:
        """What the group of a stage has committed; 0 where nothing is."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.servers, **self._arguments)
        await admin.start()
        try:
            described = await admin.describe_topics([self.prefix + topic])
            places = [
                TopicPartition(self.prefix + topic, found["partition"])
                for found in described[0]["partitions"]
            ]
            offsets = await admin.list_consumer_group_offsets(
                f"{self.prefix}livedex.{stage}", partitions=places
            )
            return {place.partition: max(found.offset, 0) for place, found in offsets.items()}
        finally:
            await admin.close()

    async def ended(self, topic: str, stage: str) -> bool:
        """Whether the group of a stage has committed all there is."""
        return await self.committed(topic, stage) == await self.ends(topic)

    async def reset_offsets(self, topic: str, stage: str) -> None:
        """Let the group of a stage, which no process is in, read its topic from the beginning
        again.
        """
        group = f"{self.prefix}livedex.{stage}"
        async with self._consumer(group_id=group) as consumer:
            places = await self._partitions(consumer, topic)
            consumer.assign(places)
            await consumer.commit(dict.fromkeys(places, 0))

    async def accept_any_timestamp(self, topic: str) -> None:
        """Let the broker take records of any time, and keep it, as old ones do."""
        limits = {
            "message.timestamp.after.max.ms": str(2**63 - 1),
            "message.timestamp.before.max.ms": str(2**63 - 1),
        }
        await self.configure(topic, limits | {"message.timestamp.type": "CreateTime"})

    async def configure(self, topic: str, config: dict[str, str]) -> None:
        """Change a topic."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.servers, **self._arguments)
        await admin.start()
        try:
            await admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, self.prefix + topic, config)]
            )
        finally:
            await admin.close()

    @asynccontextmanager
    async def _consumer(self, **arguments: Any) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.servers, enable_auto_commit=False, **self._arguments, **arguments
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    async def _partitions(self, consumer: AIOKafkaConsumer, topic: str) -> list[TopicPartition]:
        name = self.prefix + topic
        cluster = await consumer._client.fetch_all_metadata()
        return [
            TopicPartition(name, number)
            for number in sorted(cluster.partitions_for_topic(name) or ())
        ]
