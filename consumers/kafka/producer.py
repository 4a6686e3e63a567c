"""Idempotent producer that is replaced after Kafka rejects a record."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from faststream.kafka import KafkaBroker as FastStreamBroker

from livedex.consumers.kafka.compat import (
    WRITER_INTERVAL_S,
    close_now,
    limit_metadata_requests,
    present_producer,
)
from livedex.consumers.kafka.connection import METADATA_AGE_MS, client_arguments
from livedex.consumers.kafka.topics import MAX_CHANGE_BYTES
from livedex.pipeline.settings.kafka import KafkaSettings

log = logging.getLogger(__name__)

CLIENT_ID = "livedex"
PRODUCER_OPTIONS: dict[str, Any] = {
    "acks": "all",
    "enable_idempotence": True,
    "compression_type": "lz4",
    "linger_ms": 2,
    "max_batch_size": 256 * 1024,
    "max_request_size": MAX_CHANGE_BYTES,
    "metadata_max_age_ms": METADATA_AGE_MS,
}
"""How records are produced, as aiokafka's arguments."""


_COLLATERAL = (
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
)
"""Errors of records after another record of the same producer was rejected: they were not written,
and may be sent again.
"""
_MAX_DELIVERIES = 4


class RenewableProducer:
    """Sends records below a FastStream broker.

    An idempotent producer numbers its batches in each partition, and aiokafka counts a batch that
    Kafka rejected (too large for its topic) like any other. Kafka does not expect the next number,
    so it rejects all later batches (OutOfOrderSequenceNumber) as long as the producer lives.
    Therefore a new producer with a new id replaces it.

    Args:
        broker: its start opens the first producer, with `PRODUCER_OPTIONS`.
        settings: of the connection.
        servers: to connect to.

    Attributes:
        ending: the process ends, and no new producer is opened.
    """

    def __init__(
        self, broker: FastStreamBroker, settings: KafkaSettings, servers: tuple[str, ...]
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._servers = servers
        self.ending = False
        self._renewal: asyncio.Task[None] | None = None
        self._before: list[tuple[AIOKafkaProducer, asyncio.Task[None]]] = []

    async def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Any = None
    ) -> asyncio.Future[Any]:
        """Send a record; return the future of its acknowledgement.

        A record that failed because another record of the same producer was rejected is sent again
        by the new producer.

        Args:
            topic: full name.
            value: of the record; None for a tombstone.
            key: of the record.
            headers: of the record.

        Raises:
            KafkaError: the record cannot be sent.
        """
        client, sent = await self._hand_over(topic, value, key, headers)

        async def delivered() -> Any:
            nonlocal client, sent
            for _ in range(_MAX_DELIVERIES):
                try:
                    return await sent
                except _COLLATERAL as exc:
                    self._replace_after(client, exc)
                    client, sent = await self._hand_over(topic, value, key, headers)
                except KafkaError as exc:
                    self._replace_after(client, exc)
                    raise
            return await sent

        return asyncio.create_task(delivered(), name=f"deliver to {topic}")

    async def check_topic(self, topic: str) -> None:
        """Return if a topic exists or Kafka does not answer.

        Args:
            topic: full name.

        Raises:
            UnknownTopicOrPartitionError: it does not exist.
            TopicAuthorizationFailedError: this user may not see it.
        """
        client = self.client
        if client is None or client.cluster.partitions_for_topic(topic) is not None:
            return
        client.add_topic(topic)
        for _ in range(2):  # the first answer may be to an earlier question
            if (
                not await client.force_metadata_update()
                or client.cluster.partitions_for_topic(topic) is not None
            ):
                return
        if topic in client.cluster.unauthorized_topics:
            raise TopicAuthorizationFailedError(topic)
        raise UnknownTopicOrPartitionError(topic)

    async def _hand_over(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Any
    ) -> tuple[AIOKafkaProducer, asyncio.Future[Any]]:
        """Give a record to the present producer, never to one that is being replaced.

        Raises:
            ProducerClosed: there is none.
        """
        for _ in range(_MAX_DELIVERIES):
            if self._renewal is not None and not self._renewal.done():
                await asyncio.shield(self._renewal)
            client = self._client
            if client is None:
                break
            try:
                return client, await client.send(topic, value, key=key, headers=headers or [])
            except ProducerClosed:
                if client is self._client:
                    raise
        raise ProducerClosed

    def _replace_after(self, client: AIOKafkaProducer, exc: KafkaError) -> None:
        """Replace the producer after a failure, once for all records that failed with it."""
        if (
            not self.ending
            and client is self._client
            and (self._renewal is None or self._renewal.done())
        ):
            log.info("a new producer for Kafka: %s", type(exc).__name__)
            self._renewal = asyncio.create_task(self._renew(client), name="renew the producer")

    async def _renew(self, old: AIOKafkaProducer) -> None:
        below: Any = self._broker.config.producer
        new = AIOKafkaProducer(
            **client_arguments(self._settings, self._servers),
            client_id=CLIENT_ID,
            **PRODUCER_OPTIONS,
        )
        limit_metadata_requests(new.client, WRITER_INTERVAL_S)
        try:
            await below.connect(new, below.serializer, below.codec)
        except (KafkaError, OSError) as exc:
            log.warning(
                "a new producer for Kafka could not be opened, so the old one is kept until "
                "it is refused again: %s",
                exc,
            )
            await new.stop()
            return
        except asyncio.CancelledError:
            await new.stop()
            raise
        self._before = [(client, task) for client, task in self._before if not task.done()]
        self._before.append(
            (old, asyncio.create_task(old.stop(), name="stop the replaced producer"))
        )

    async def close(self, timeout_s: float) -> None:
        """Close every producer, also those that wait for a response: their unsent records were not
        acknowledged.

        Args:
            timeout_s: for former producers to send their records.
        """
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        if self._before:
            await asyncio.wait([task for _, task in self._before], timeout=timeout_s)
        for client, task in self._before:
            if not task.done():
                task.cancel()
                await close_now(client)

    async def abort(self) -> None:
        """Close the present producer without waiting."""
        if client := self._client:
            await close_now(client)

    @property
    def client(self) -> Any:
        """Return the connections of the present producer; None where it is closed."""
        producer = self._client
        return None if producer is None else producer.client

    @property
    def present(self) -> AIOKafkaProducer | None:
        """Return aiokafka's producer in use; None where it is closed."""
        return self._client

    @property
    def _client(self) -> Any:
        """aiokafka's producer below FastStream, which adds headers of its own and knows no record
        without a value; None where it is closed.
        """
        return present_producer(self._broker)
