"""All uses of internals of aiokafka and of FastStream's Kafka broker, in one place.

`pyproject.toml` allows aiokafka below 0.15 and FastStream below 0.8. Before a bound is raised,
`tests/unit/kafka/test_kafka_compat.py` says which of these workarounds can go:

| function | reason | can go when |
|---|---|---|
| `client_of`, `admin_client_of` | no public access to the client of a consumer or admin client |
the client is public |
| `present_producer` | FastStream adds headers and cannot send a record without a value | FastStream
publishes raw records |
| `partition_for_key` | no public way to ask for the partition of a key | the producer has one |
| `limit_metadata_requests` | a missing leader makes the client request metadata in a loop; see
aiokafka issue 1155 for the same fault in fetching | the client waits between requests |
| `is_connected`, `add_bootstrap_servers` | no rebootstrap (Kafka's KIP-899) | the client has
`metadata_recovery_strategy` |
| `close_now` | `stop` waits for unsendable records | `stop` has a timeout |
| `accept_non_utf8_header_names` | a header name that is not UTF-8 stops its partition | the reader
returns such a record |
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy
from aiokafka.structs import BrokerMetadata

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.client import AIOKafkaClient
    from faststream.kafka import KafkaBroker

log = logging.getLogger(__name__)

READER_INTERVAL_S, WRITER_INTERVAL_S = 0.1, 0.02


def client_of(consumer: AIOKafkaConsumer) -> AIOKafkaClient:
    """Return the client of a consumer, with its connections and metadata."""
    return consumer._client


def admin_client_of(broker: KafkaBroker) -> AIOKafkaClient | None:
    """Return the client of a FastStream broker's admin client; None before it is started."""
    return getattr(broker.config.admin_client, "_client", None)


def present_producer(broker: KafkaBroker) -> AIOKafkaProducer | None:
    """Return aiokafka's producer of a FastStream broker; None if it is closed."""
    producer: Any = broker.config.producer
    state = producer._producer
    return state.producer if state else None


def partition_for_key(producer: AIOKafkaProducer, topic: str, key: bytes) -> int:
    """Return the partition in which a producer puts the records of a key.

    Args:
        producer: knows the partitions of the topic.
        topic: full name.
        key: of a record.
    """
    return int(producer._partition(topic, None, None, None, key, None))


def limit_metadata_requests(client: AIOKafkaClient, every_s: float = READER_INTERVAL_S) -> None:
    """Limit the rate of a client's metadata requests; a second call changes nothing.

    Args:
        client: of a consumer or producer.
        every_s: seconds between requests. A producer that holds a record for a partition without a
            leader sends nothing else in between.
    """
    if hasattr(client, "livedex_rate_limited"):
        return
    client.livedex_rate_limited = True
    request, last = client._metadata_update, 0.0

    async def request_later(*args: Any) -> Any:
        nonlocal last
        if (early_s := last + every_s - time.monotonic()) > 0:
            await asyncio.sleep(early_s)
        last = time.monotonic()
        return await request(*args)

    client._metadata_update = request_later


def is_connected(client: AIOKafkaClient) -> bool:
    """Return whether a client has a connection to any node."""
    return any(connection.connected() for connection in client._conns.values())


def add_bootstrap_servers(client: AIOKafkaClient) -> None:
    """Let the next metadata request go to the bootstrap servers too; its response replaces all
    nodes that the client knows.
    """
    for number, (host, port, _) in enumerate(client.hosts):
        name = f"bootstrap-{number}"
        client.cluster._brokers[name] = BrokerMetadata(name, host, port, None)
    client.force_metadata_update()


async def close_now(producer: AIOKafkaProducer) -> None:
    """Close a producer without waiting for its records."""
    await producer._sender.close()
    await producer.client.close()


class _Bytes(bytearray):
    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return _Bytes(found) if isinstance(key, slice) else found

    def decode(self, *_: str) -> str:
        return bytes(self).decode("utf-8", "surrogateescape")


class _Batch(_DefaultRecordBatchPy):  # type: ignore[misc]  # aiokafka has no types for it
    _buffer: Any

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        if not isinstance(self._buffer, _Bytes):
            self._buffer = _Bytes(self._buffer)


class _Records(_MemoryRecordsPy):  # type: ignore[misc]  # as above
    def next_batch(self) -> Any:
        raw = self._next_slice
        batch = super().next_batch()
        return _Batch(raw) if isinstance(batch, DefaultRecordBatch) else batch


def accept_non_utf8_header_names() -> None:
    """Read header names of any bytes from now on, with aiokafka's slower reader.

    Such a name is kept: `name.encode("utf-8", "surrogateescape")` returns its bytes.
    """
    if fetcher.MemoryRecords is not _Records:
        log.warning(
            "a record has a header name that is not UTF-8: records are read more slowly from now on"
        )
        fetcher.MemoryRecords = _Records
