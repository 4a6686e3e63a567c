"""Are the committed offsets of the stages ever ahead of the outcomes? Read from Kafka and
PostgreSQL themselves while a fleet works.

A record that is committed has an outcome: the same event stands on the next topic, or its document
is at its version or a newer one is accepted or it is a dead letter.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import asyncpg
import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from livedex.consumers.kafka.consumer_lag import consumer_group_id
from livedex.pipeline.flow import STAGES
from livedex.pipeline.settings.kafka import KafkaSettings

_EVERY_S = 0.5
_LOOK_S = 30.0
_ANSWER_MS = 4000
_STATES = """
select tenant_id, document_id, coalesce(version, -1) as ended, coalesce(pending_version,
  -1) as pending, coalesce(dead_version, -1) as dead
from documents where document_id = any($1)
"""
_LETTERS = (
    "select topic, place ->> 'partition' as partition, place ->> 'offset' as at from dead_letters"
)


@dataclass(frozen=True, slots=True)
class AuditedRecord:
    """A record of a topic; nothing is known of one that is no event."""

    event_id: str | None
    tenant_id: str = ""
    document_id: str = ""
    version: int = -1


class OffsetAudit:
    """Looks twice a second, in a thread of its own, for as long as it is entered; away servers are
    waited for.

    Args:
        url: of the database, for its owner.

    Attributes:
        looks: at committed offsets, up to now.
        records: committed ones that were looked at.
        ahead: those without an outcome, in words.
    """

    def __init__(self, settings: KafkaSettings, bootstrap: str, url: str) -> None:
        self._settings, self._bootstrap, self._url = settings, bootstrap, url
        self._topics = [
            settings.prefix + name
            for name in (*(stage.takes for stage in STAGES), STAGES[-1].leaves)
        ]
        self._read: dict[TopicPartition, list[AuditedRecord]] = {}
        self._ids: dict[str, set[str]] = {topic: set() for topic in self._topics}
        self._looked: dict[TopicPartition, int] = {}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), name="audit")
        self._ending = threading.Event()
        self.looks = self.records = 0
        self.ahead: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    async def look(self) -> None:
        """Hold what was committed since the last look against its outcomes."""
        servers = {"bootstrap_servers": self._bootstrap, "request_timeout_ms": _ANSWER_MS}
        admin = AIOKafkaAdminClient(**servers)
        try:
            await admin.start()
            committed = await self._committed(admin)
        finally:
            await admin.close()
        # what was read before tells where it goes on
        consumer = AIOKafkaConsumer(**servers, enable_auto_commit=False)
        try:
            await consumer.start()
            await self._read_on(consumer)
        finally:
            await consumer.stop()
        await self._judge(committed)
        self.looks += 1

    async def _watch(self) -> None:
        while True:
            last = self._ending.is_set()
            try:
                await asyncio.wait_for(self.look(), _LOOK_S)
            except (
                KafkaError,
                asyncpg.PostgresError,
                asyncpg.InterfaceError,
                OSError,
                TimeoutError,
            ):
                if last:
                    raise
            if last:
                return
            await asyncio.to_thread(self._ending.wait, _EVERY_S)

    async def _committed(self, admin: AIOKafkaAdminClient) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for stage in STAGES:
            described = await admin.describe_topics([self._settings.prefix + stage.takes])
            partitions = [
                TopicPartition(described[0]["topic"], p["partition"])
                for p in described[0]["partitions"]
            ]
            stored = await admin.list_consumer_group_offsets(
                consumer_group_id(self._settings, stage.name), partitions=partitions
            )
            found |= {partition: at.offset for partition, at in stored.items() if at.offset >= 0}
        return found

    async def _read_on(self, consumer: AIOKafkaConsumer) -> None:
        """Read every topic up to its end."""
        partitions = [
            TopicPartition(topic, n)
            for topic in self._topics
            for n in range(self._settings.partitions)
        ]
        ends = await consumer.end_offsets(partitions)
        left = {
            partition
            for partition in partitions
            if len(self._read.setdefault(partition, [])) < ends[partition]
        }
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, len(self._read[partition]))
        while left:
            for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                for record in records:
                    assert record.offset == len(self._read[partition]), (
                        "a topic of its own has no gaps"
                    )
                    self._read[partition].append(read := _read(record.value))
                    if read.event_id is not None:
                        self._ids[partition.topic].add(read.event_id)
            left = {partition for partition in left if len(self._read[partition]) < ends[partition]}

    async def _judge(self, committed: dict[TopicPartition, int]) -> None:
        following = dict(zip(self._topics, self._topics[1:], strict=False))
        unclear: list[tuple[TopicPartition, int, AuditedRecord]] = []
        for partition, end in committed.items():
            begin = self._looked.get(partition, 0)
            passed_on = self._ids[following[partition.topic]]
            reads = self._read[partition][begin:end]
            if begin + len(reads) < end:
                self.ahead.append(
                    f"{partition.topic}-{partition.partition}: {end} is committed, and the "
                    "topic ends before"
                )
            unclear += [
                (partition, begin + n, read)
                for n, read in enumerate(reads)
                if read.event_id not in passed_on
            ]
            self.records += len(reads)
        if unclear:
            await self._ask(unclear)
        self._looked |= committed

    async def _ask(self, unclear: list[tuple[TopicPartition, int, AuditedRecord]]) -> None:
        connection = await asyncpg.connect(self._url, timeout=5)
        try:
            rows = await connection.fetch(
                _STATES, list({read.document_id for _, _, read in unclear})
            )
            letters = {
                (row["topic"], row["partition"], row["at"])
                for row in await connection.fetch(_LETTERS)
            }
        finally:
            await connection.close()
        states = {(row["tenant_id"], row["document_id"]): row for row in rows}
        for partition, offset, read in unclear:
            state = states.get((read.tenant_id, read.document_id))
            if (
                state is not None
                and read.event_id is not None
                and (
                    read.version <= max(state["ended"], state["dead"])
                    or read.version < state["pending"]
                )
            ):
                continue
            topic = partition.topic.removeprefix(self._settings.prefix)
            if (topic, str(partition.partition), str(offset)) not in letters:
                self.ahead.append(
                    f"{topic}-{partition.partition} at {offset}: {read}, and its document: "
                    f"{state and dict(state)}"
                )


def _read(value: bytes | None) -> AuditedRecord:
    try:
        body = orjson.loads(value or b"")
        data = body["data"]
        return AuditedRecord(body["id"], data["tenant_id"], data["document_id"], data["version"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return AuditedRecord(None)
