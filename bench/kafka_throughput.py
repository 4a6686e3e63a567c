"""Changes of one chunk each through all stages, one process a stage, against a consumer that does the same in one loop."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import asyncpg
import numpy as np
from aiokafka import AIOKafkaConsumer
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from bench.fleet import Fleet, a_fleet
from bench.small import make_topics, publish, small_changes, visible
from bench.table import show
from pipeline.embedding.local import LocalEmbedder
from pipeline.events import CHANGED, Changed, decode

COUNTS = {"chunk": 1, "embed": 1, "sync": 1}
BAR = 0.5
_WARM = 300
_LIMIT_S = 900
_TABLE = """
create table straight (
    document text not null, content text not null, embedding halfvec(256) not null, tsv tsvector not null);
create index on straight (document);
create index on straight using gin (tsv);
"""
_VECTOR_INDEX = "create index on straight using hnsw (embedding halfvec_cosine_ops)"
_WRITE = "insert into straight (document, content, embedding, tsv) values ($1, $2, $3, to_tsvector('english', $2))"


async def run(documents: int = 5000) -> None:
    """Print the table of the throughput."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        loops, ours_s = await asyncio.to_thread(_measure, Path(folder), documents)
    show(
        f"{documents} changes of one chunk over Kafka; the bar is a ratio of {BAR} to the loop without a vector index",
        ["", "seconds", "changes/s", "ratio"],
        [*([name, took_s, documents / took_s, loops[0][1] / took_s] for name, took_s in (*loops, ("one process a stage", ours_s)))],
    )


def _measure(home: Path, documents: int) -> tuple[list[tuple[str, float]], float]:
    with a_fleet(home, COUNTS) as fleet:
        loops = [
            ("one loop, no vector index", asyncio.run(_loop(fleet, documents, vector_index=False))),
            ("one loop, HNSW from the start", asyncio.run(_loop(fleet, documents, vector_index=True))),
        ]
        fleet.start()
        asyncio.run(_ours(fleet, _WARM, _WARM, "warm"))
        return loops, asyncio.run(_ours(fleet, documents, _WARM + documents, "small"))


async def _ours(fleet: Fleet, documents: int, until: int, name: str) -> float:
    connection = await asyncpg.connect(fleet.database.url)
    try:
        begin = time.monotonic()
        await publish(fleet.bootstrap, fleet.kafka.prefix + CHANGED, small_changes(documents, name))
        while (found := await visible(connection)) < until:
            took_s = time.monotonic() - begin
            if took_s > _LIMIT_S:
                raise TimeoutError(f"{found} of {until} documents are visible after {took_s:.0f} s")
            await asyncio.sleep(0.05)
        return time.monotonic() - begin
    finally:
        await connection.close()


async def _loop(fleet: Fleet, documents: int, *, vector_index: bool) -> float:
    """Seconds that the straight consumer takes: a record, its vector, a transaction, a commit."""
    topic = f"{fleet.kafka.prefix}straight-{vector_index}"
    await make_topics(fleet.bootstrap, [topic], fleet.kafka.partitions)
    connection = await asyncpg.connect(fleet.database.url)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=fleet.bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    )
    embedder = LocalEmbedder()
    try:
        await connection.execute("create extension if not exists vector; drop table if exists straight;" + _TABLE)
        if vector_index:
            await connection.execute(_VECTOR_INDEX)
        await register_vector(connection)
        await consumer.start()
        events = list(small_changes(_WARM + documents))
        await publish(fleet.bootstrap, topic, iter(events[:_WARM]))
        await _consume(consumer, connection, embedder, _WARM)
        begin = time.monotonic()
        await publish(fleet.bootstrap, topic, iter(events[_WARM:]))
        await _consume(consumer, connection, embedder, documents)
        return time.monotonic() - begin
    finally:
        await consumer.stop()
        await connection.close()
        await embedder.close()


async def _consume(consumer: AIOKafkaConsumer, connection: asyncpg.Connection, embedder: LocalEmbedder, count: int) -> None:
    for _ in range(count):
        record = await consumer.getone()
        event = decode(record.value, Changed)
        text = event.data.inline().decode()
        vector = np.asarray(await embedder.embed([text], kind="document"))[0]
        async with connection.transaction():
            await connection.execute("delete from straight where document = $1", event.document_id)
            await connection.execute(_WRITE, event.document_id, text, HalfVector(vector))
        await consumer.commit()
