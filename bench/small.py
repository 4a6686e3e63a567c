"""Small changes, put on Kafka as another system would, and how many of them are visible."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from typing import Any

import asyncpg
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench.corpus import paragraph
from livedex.pipeline.events.event import Changed, Event, change_event

TENANT = "default"
_UNCONFIRMED = 5000


def small_changes(count: int, name: str = "small") -> Iterator[Event[Changed]]:
    """Changes of as many documents, each of one chunk, no text twice."""
    rng = random.Random(f"{name} {count}")
    for number in range(count):
        text = paragraph(rng)[:500].encode()
        data: dict[str, Any] = {
            "content": base64.b64encode(text).decode(),
            "size_bytes": len(text),
            "name": "small.txt",
        }
        yield change_event(
            Changed(tenant_id=TENANT, document_id=f"{name}/{number}.txt", version=1, **data)
        )


async def publish(bootstrap: str, topic: str, events: Iterator[Event[Changed]]) -> int:
    """Put changes on a topic; returns once Kafka holds all, and how many there were."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, compression_type="lz4"
    )
    await producer.start()
    count = 0
    try:
        for event in events:
            await producer.send(topic, event.encode(), key=event.key().encode())
            count += 1
            if count % _UNCONFIRMED == 0:
                await producer.flush()
        await producer.flush()
    finally:
        await producer.stop()
    return count


async def make_topics(bootstrap: str, names: Sequence[str], partitions: int) -> None:
    """Make topics of one copy."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1) for name in names])
    finally:
        await admin.close()


async def visible_documents(connection: asyncpg.Connection) -> int:
    """How many documents are visible and have nothing under way."""
    return int(
        await connection.fetchval(
            "select count(*) from documents where state = 'synced' and pending_version is null"
        )
    )


async def visible_documents_at(url: str) -> int:
    """The same, with a connection of its own as the database's owner."""
    connection = await asyncpg.connect(url)
    try:
        return await visible_documents(connection)
    finally:
        await connection.close()
