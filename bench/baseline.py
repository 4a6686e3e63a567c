"""The baseline of every comparison: a straight script, as one would write it in an afternoon.

It reads, splits with semantic-text-splitter at 1,000 characters, embeds with the same local model
and writes chunks with their vectors and a tsvector to one table, one transaction a document, with
HNSW and GIN there from the start. An edit reuses the hashes found anywhere in the document.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import numpy as np
from pgvector import HalfVector
from pgvector.asyncpg import register_vector
from semantic_text_splitter import MarkdownSplitter, TextSplitter

from livedex.pipeline.embedding.local_embedder import LocalEmbedder
from livedex.pipeline.store.embedded.server import embedded_postgres

SIZE = 1000
_SCHEMA = """
create extension if not exists vector;
drop table if exists baseline_chunks;
create table baseline_chunks (
    id bigint generated always as identity primary key, document text not null,
      position integer not null, hash text not null,
    content text not null, embedding halfvec(256) not null, tsv tsvector not null);
create index on baseline_chunks (document, hash);
create index on baseline_chunks using hnsw (embedding halfvec_cosine_ops);
create index on baseline_chunks using gin (tsv);
"""


@asynccontextmanager
async def open_baseline() -> AsyncIterator[Baseline]:
    """The straight script on a server of its own, its model loaded and its table empty."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        async with embedded_postgres(Path(folder)) as url:
            connection = await asyncpg.connect(url)
            try:
                embedder = LocalEmbedder()
                await embedder.embed(
                    ["a first text, so that loading the model is not counted"], kind="document"
                )
                baseline = Baseline(connection, embedder)
                await baseline.prepare()
                yield baseline
            finally:
                await connection.close()


class Baseline:
    """The straight script, with a connection of its own; counts the characters it embeds."""

    def __init__(self, connection: asyncpg.Connection, embedder: LocalEmbedder) -> None:
        self._connection = connection
        self._embedder = embedder
        self.embedded_characters = 0
        self.embedded_texts = 0

    async def prepare(self) -> None:
        """Make the table, empty."""
        await self._connection.execute(_SCHEMA)
        await register_vector(self._connection)

    async def write(self, document: str, text: str) -> None:
        """Make a text the stored version of a document."""
        splitter = MarkdownSplitter(SIZE) if document.endswith(".md") else TextSplitter(SIZE)
        chunks = splitter.chunks(text)
        hashes = [hashlib.sha256(c.encode()).hexdigest() for c in chunks]
        c = self._connection
        async with c.transaction():
            known = {
                r["hash"]: r["embedding"]
                for r in await c.fetch(
                    "select hash, embedding from baseline_chunks where document = $1", document
                )
            }
            new = [
                (h, t) for h, t in dict(zip(hashes, chunks, strict=True)).items() if h not in known
            ]
            if new:
                vectors = await self._embed([t for _, t in new])
                known |= {h: HalfVector(v) for (h, _), v in zip(new, vectors, strict=True)}
            rows = await c.fetch(
                "select id, position, hash from baseline_chunks where document = $1 order by "
                "position",
                document,
            )
            free: dict[str, list[asyncpg.Record]] = {}
            for row in rows[::-1]:
                free.setdefault(row["hash"], []).append(row)
            keep, add = [], []
            for n, (h, t) in enumerate(zip(hashes, chunks, strict=True)):
                if free.get(h):
                    keep.append((free[h].pop()["id"], n))
                else:
                    add.append((document, n, h, t, known[h]))
            gone = [row["id"] for left in free.values() for row in left]
            await c.execute("delete from baseline_chunks where id = any($1)", gone)
            await c.executemany(
                "update baseline_chunks set position = $2 where id = $1 and position <> $2", keep
            )
            await c.executemany(
                "insert into baseline_chunks (document, position, hash, content, embedding, "
                "tsv) values ($1, $2, $3, $4, $5, to_tsvector('english', $4))",
                add,
            )

    async def delete(self, document: str) -> None:
        """Take a document out."""
        await self._connection.execute("delete from baseline_chunks where document = $1", document)

    async def rename(self, old: str, new: str) -> None:
        """Give a document another name."""
        await self._connection.execute(
            "update baseline_chunks set document = $2 where document = $1", old, new
        )

    async def mean_characters(self) -> float:
        """Of a chunk."""
        return float(
            await self._connection.fetchval(
                "select coalesce(avg(char_length(content)), 0) from baseline_chunks"
            )
        )

    async def _embed(self, texts: list[str]) -> np.ndarray:
        self.embedded_texts += len(texts)
        self.embedded_characters += sum(map(len, texts))
        return np.asarray(await self._embedder.embed(texts, kind="document"))
