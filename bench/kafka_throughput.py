"""Changes of one chunk each through all stages, one process a stage, against a consumer that does
the same in one loop.

They take turns, so that what else the machine does strikes all of them.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg
import numpy as np
from aiokafka import AIOKafkaConsumer
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from bench.fleet import MultiProcessDeployment, running_deployment
from bench.small import make_topics, publish, small_changes, visible_documents
from bench.table import print_table
from livedex.pipeline.embedding.local_embedder import LocalEmbedder
from livedex.pipeline.events.decoder import decode_event
from livedex.pipeline.events.event import CHANGED, Changed

COUNTS = {"chunk": 1, "embed": 1, "sync": 1}
BAR = 0.5
_ROUNDS = 3
_WARM = 300
_LIMIT_S = 900
_SCHEMA = """
create table straight (
    document text not null, content text not null, embedding halfvec(256) not null,
      tsv tsvector not null);
create index on straight (document);
create index on straight using gin (tsv);
"""
_VECTOR_INDEX = "create index on straight using hnsw (embedding halfvec_cosine_ops);"
_DELETE = "delete from straight where document = $1"
_INSERT = (
    "insert into straight (document, content, embedding, tsv) values ($1, $2, $3, "
    "to_tsvector('english', $2))"
)


async def run(documents: int = 2000) -> None:
    """Print the table of the throughput."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        rounds = await asyncio.to_thread(_measure, Path(folder), documents)
    rows: list[list[object]] = []
    for name, took_s in rounds.items():
        ratio = statistics.median(
            base / own
            for base, own in zip(rounds["one loop, no vector index"], took_s, strict=True)
        )
        rows.append([name, statistics.median(took_s), documents / statistics.median(took_s), ratio])
    print_table(
        f"{documents} changes of one chunk over Kafka, {_ROUNDS} rounds; the bar is a ratio "
        f"of {BAR} to the loop without a vector index",
        ["", "median seconds", "changes/s", "median ratio"],
        rows,
    )


def _measure(home: Path, documents: int) -> dict[str, list[float]]:
    """Seconds of each round."""
    with running_deployment(home, COUNTS) as fleet:
        fleet.start()
        return asyncio.run(_take_turns(fleet, documents))


async def _take_turns(fleet: MultiProcessDeployment, documents: int) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        parties: dict[str, Loop | Stages] = {
            "one loop, no vector index": await stack.enter_async_context(_loop(fleet, "straight")),
            "one loop, HNSW from the start": await stack.enter_async_context(
                _loop(fleet, "straight_hnsw", _VECTOR_INDEX)
            ),
            "one process a stage": await stack.enter_async_context(_stages(fleet)),
        }
        for party in parties.values():
            await party.work_off(_WARM, "warm")
        return await _timed(parties, documents)


async def _timed(parties: dict[str, Loop | Stages], documents: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in parties}
    for number in range(_ROUNDS):
        for name, party in parties.items():
            begin = time.monotonic()
            await party.work_off(documents, f"round-{number}")
            found[name].append(time.monotonic() - begin)
    return found


class Stages:
    """The stages of a fleet."""

    def __init__(self, fleet: MultiProcessDeployment, connection: asyncpg.Connection) -> None:
        self._fleet, self._connection, self._expected = fleet, connection, 0

    async def work_off(self, count: int, name: str) -> None:
        """Publish changes, and return once all are visible.

        Raises:
            TimeoutError: it took too long.
        """
        self._expected += await publish(
            self._fleet.bootstrap, self._fleet.kafka.prefix + CHANGED, small_changes(count, name)
        )
        begin = time.monotonic()
        while (found := await visible_documents(self._connection)) < self._expected:
            if time.monotonic() - begin > _LIMIT_S:
                raise TimeoutError(
                    f"{found} of {self._expected} documents are visible after {_LIMIT_S} s"
                )
            await asyncio.sleep(0.05)


class Loop:
    """The straight consumer: a record, its vector, a transaction, a commit."""

    def __init__(
        self,
        fleet: MultiProcessDeployment,
        connection: asyncpg.Connection,
        consumer: AIOKafkaConsumer,
        embedder: LocalEmbedder,
        topic: str,
    ) -> None:
        self._bootstrap, self._connection, self._consumer, self._embedder, self._topic = (
            fleet.bootstrap,
            connection,
            consumer,
            embedder,
            topic,
        )

    async def work_off(self, count: int, name: str) -> None:
        """Publish changes, and return once all are stored."""
        await publish(self._bootstrap, self._topic, small_changes(count, name))
        for _ in range(count):
            event = decode_event((await self._consumer.getone()).value, Changed)
            text = event.data.content_bytes().decode()
            vector = np.asarray(await self._embedder.embed([text], kind="document"))[0]
            async with self._connection.transaction():
                await self._connection.execute(_DELETE, event.document_id)
                await self._connection.execute(_INSERT, event.document_id, text, HalfVector(vector))
            await self._consumer.commit()


@asynccontextmanager
async def _stages(fleet: MultiProcessDeployment) -> AsyncIterator[Stages]:
    connection = await asyncpg.connect(fleet.database.url)
    try:
        yield Stages(fleet, connection)
    finally:
        await connection.close()


@asynccontextmanager
async def _loop(fleet: MultiProcessDeployment, name: str, more: str = "") -> AsyncIterator[Loop]:
    topic = fleet.kafka.prefix + name
    await make_topics(fleet.bootstrap, [topic], fleet.kafka.partitions)
    async with AsyncExitStack() as stack:
        connection, embedder = await asyncpg.connect(fleet.database.url), LocalEmbedder()
        stack.push_async_callback(connection.close)
        stack.push_async_callback(embedder.close)
        await connection.execute(
            f"create schema {name}; set search_path to {name}, public;" + _SCHEMA + more
        )
        await register_vector(connection)
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=fleet.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        stack.push_async_callback(consumer.stop)
        yield Loop(fleet, connection, consumer, embedder, topic)
