"""The producer below FastStream's broker, idempotent, and begun anew once Kafka has refused
something of it.
"""

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
"""What becomes of the records of a producer once another record of it was refused: they were not
written, and are not to blame.
"""
_MOST_DELIVERIES = 4


class RenewableProducer:
    """What a FastStream broker publishes through.

    An idempotent producer numbers what it sends to a partition, and aiokafka counts a batch that
    Kafka refused (one too large for its topic) like any other: the next number is then one that
    Kafka does not expect, and everything after it is refused (OutOfOrderSequenceNumber) for as long
    as the producer lives. So a new one, with a new producer id, takes its place.

    Args:
        broker: its producer is opened by its start, with `PRODUCING`.

    Attributes:
        ending: the process ends, and no new producer is opened any more.
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
        """Hand a record over; what is returned is done once Kafka holds it, or refused it.

        A record that a former producer could not deliver, because another record of it was refused,
        is handed to the present one.

        Args:
            headers: of the record.

        Raises:
            KafkaError: it cannot be handed over.
        """
        client, sent = await self._hand_over(topic, value, key, headers)

        async def delivered() -> Any:
            nonlocal client, sent
            for _ in range(_MOST_DELIVERIES):
                try:
                    return await sent
                except _COLLATERAL as exc:
                    self._look(client, exc)
                    client, sent = await self._hand_over(topic, value, key, headers)
                except KafkaError as exc:
                    self._look(client, exc)
                    raise
            return await sent

        return asyncio.create_task(delivered(), name=f"deliver to {topic}")

    async def check_topic(self, topic: str) -> None:
        """Pass where a topic is known, or Kafka cannot be asked.

        Raises:
            UnknownTopicOrPartitionError: it is not there.
            TopicAuthorizationFailedError: it may not be seen.
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
        """Give a record to the present producer, never to one that is being replaced."""
        for _ in range(_MOST_DELIVERIES):
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

    def _look(self, client: AIOKafkaProducer, exc: KafkaError) -> None:
        """Renew the producer that a record failed on, once, however many failed."""
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
            (old, asyncio.create_task(old.stop(), name="let a producer send what it has"))
        )

    async def close(self, timeout_s: float) -> None:
        """Let go of every producer, also of those that wait for an answer: what they have not sent
        was not acknowledged to anybody.

        Args:
            timeout_s: how long former producers may take to send what they have.
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

    async def hang_up(self) -> None:
        """Let go of the present producer without a word."""
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
