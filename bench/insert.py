"""One paragraph inserted at the top of a document of 1,000 chunks, with 20,000 other chunks and
HNSW there.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

import asyncpg

from bench.corpus import paragraph
from bench.edits import _Counting
from bench.table import print_table
from livedex import Livedex
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store import database
from livedex.pipeline.store.documents.vector_index import maintain_vector_index

_OTHERS = 20_000
_ROUNDS = 21


def _prose(rng: random.Random, paragraphs: int) -> list[str]:
    return [f"{paragraph(rng)} {paragraph(rng)}" for _ in range(paragraphs)]


class Queries:
    """Adds up the time of every query, from sent to answered."""

    seconds = 0.0

    def install(self) -> None:
        """Listen on each connection that is made from now on."""
        prepare = database._init_connection

        async def prepare_and_listen(connection: asyncpg.Connection) -> None:
            await prepare(connection)
            connection.add_query_logger(self._note)

        database._init_connection = prepare_and_listen

    def _note(self, record: object) -> None:
        self.seconds += record.elapsed  # type: ignore[attr-defined]  # asyncpg's LoggedQuery


async def run() -> None:
    """Print the table of inserts."""
    rng = random.Random(11)
    queries = Queries()
    queries.install()
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        settings = Settings(embedder="bench.edits:_Counting", tenant_scoped=False)
        async with Livedex.open(settings, Path(folder)) as livedex:
            others = 0
            while others < _OTHERS:
                done = await livedex.ingest(
                    f"other-{others}.txt", "\n\n".join(_prose(rng, 200)), mime_type="text/plain"
                )
                others += done.chunks
            generation = livedex.surroundings.generations.generation_id
            assert generation is not None
            await maintain_vector_index(livedex.surroundings.owner_url, generation, 1)
            rows = [await _measure(livedex, queries, rng, kind) for kind in ("markdown", "prose")]
    print_table(
        f"A paragraph at the top of 1,000 chunks, {others:,} others, HNSW",
        ["", "chunks", "texts embedded", "passages written", "database ms", "whole ms", "WAL KiB"],
        rows,
    )


async def _measure(
    livedex: Livedex, queries: Queries, rng: random.Random, kind: str
) -> list[object]:
    blocks = _prose(rng, 1000)
    if kind == "markdown":
        blocks = [
            b
            for n, block in enumerate(blocks)
            for b in ([f"## Section {n}", block] if n % 4 == 0 else [block])
        ]
    name, mime = (
        ("large.md", "text/markdown") if kind == "markdown" else ("large.txt", "text/plain")
    )
    chunks = (await livedex.ingest(name, "\n\n".join(blocks), mime_type=mime)).chunks
    connection = await asyncpg.connect(livedex.surroundings.owner_url)
    walls, works, wals, texts, passages = [], [], [], [], []
    for _ in range(_ROUNDS):
        blocks.insert(0, paragraph(rng))
        _Counting.texts = 0
        before = await connection.fetchrow(
            "select pg_current_wal_insert_lsn() as lsn, (select count(*) from passages) as passages"
        )
        queries.seconds = 0.0
        begin = time.monotonic()
        await livedex.ingest(name, "\n\n".join(blocks), mime_type=mime)
        walls.append(time.monotonic() - begin)
        works.append(queries.seconds)
        wals.append(
            await connection.fetchval(
                "select pg_current_wal_insert_lsn() - $1::pg_lsn", before["lsn"]
            )
        )
        passages.append(
            await connection.fetchval("select count(*) from passages") - before["passages"]
        )
        texts.append(_Counting.texts)
    await connection.close()
    return [
        kind,
        chunks,
        max(texts),
        max(passages),
        1000 * statistics.median(works),
        1000 * statistics.median(walls),
        float(statistics.median(wals)) / 1024,
    ]
