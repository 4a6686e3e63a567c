"""An index in a database of its own, filled through the store's statements, for the benchmarks of
the search.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np

from livedex.pipeline.chunking import chunk_text
from livedex.pipeline.embedding.local_embedder import DIMENSIONS, LocalEmbedder
from livedex.pipeline.model import Attributes, DocumentId, Fence, GenerationId, TenantId, TextFormat
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.search.word_statistics import refresh_word_statistics
from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.drafts import Draft, DraftChunk
from livedex.pipeline.store.embedded.server import embedded_postgres, url_for_role
from livedex.pipeline.store.schema.migrator import APPLICATION_ROLE, migrate

TENANT = TenantId("default")  # the one of `livedex up`
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_AT_ONCE = 256  # texts embedded together


@dataclass(slots=True)
class FilledIndex:
    """A filled index.

    Attributes:
        owner: a connection that may do everything.
        generation_id, dimensions: of the local embedder; it is also what the engine asks.
    """

    owner_url: str
    owner: asyncpg.Connection
    database: Database
    store: PgVectorStore
    embedder: LocalEmbedder
    generation_id: GenerationId
    dimensions: int = DIMENSIONS

    async def embed_query(self, text: str, **_: object) -> Any:
        """See `livedex.pipeline.search.engine.QueryEmbedder`."""
        return (await self.embedder.embed([text], kind="query"))[0]

    def engine(self, **options: Any) -> SearchEngine:
        """Searches this index."""
        return SearchEngine(self.database, self, self, **options)

    async def add(
        self,
        texts: Mapping[str, str],
        *,
        format: TextFormat = "plain",
        titles: Mapping[str, str] | None = None,
    ) -> int:
        """Store documents, cut as documents are; return how many chunks they have.

        Args:
            texts: by document.
            format: of all texts.
            titles: by document; those that are missing have none.
        """
        chunks = 0
        for name, text in texts.items():
            pieces = _pieces(text, format)
            chunks += len(pieces)
            fence = Fence(1, b"\0" + hashlib.sha256(text.encode()).digest())
            document_id = DocumentId(name)
            attributes = Attributes(title=(titles or {}).get(name))
            await self.store.accept(TENANT, document_id, fence, attributes, _NOW)
            await self.store.save_drafts(
                [Draft(TENANT, document_id, fence, "synced", attributes, _NOW, pieces)]
            )
            await self._embed(
                await self.store.missing_vectors(TENANT, document_id, fence, self.generation_id)
            )
            await self.store.sync_document(TENANT, document_id, fence, self.generation_id)
        return chunks

    async def _embed(self, passages: Sequence[tuple[Any, str]]) -> None:
        for at in range(0, len(passages), _AT_ONCE):
            part = passages[at : at + _AT_ONCE]
            vectors = await self.embedder.embed([text for _, text in part], kind="document")
            await self.store.upsert_vectors(
                TENANT,
                self.generation_id,
                dict(zip([number for number, _ in part], np.asarray(vectors), strict=True)),
            )

    async def settle(self) -> None:
        """Count words and let PostgreSQL look at the tables, as happens by itself after a while."""
        await refresh_word_statistics(self.database, TENANT)
        await self.owner.execute("vacuum analyze")


def _pieces(text: str, format: TextFormat) -> list[DraftChunk]:
    pieces, end = [], 0
    for chunk in chunk_text(text, format=format):
        content = text[chunk.start : chunk.end]
        pieces.append(
            DraftChunk(
                hashlib.sha256(content.encode()).digest(), content, chunk.start - end, chunk.heading
            )
        )
        end = chunk.end
    return pieces


@asynccontextmanager
async def open_index(data: Path | None = None) -> AsyncIterator[FilledIndex]:
    """An empty index.

    Args:
        data: where it lives, as `livedex up --data` takes it; default: in a folder that is gone at
            the end of the block.
    """
    with await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="livedex-bench-") as folder:
        async with embedded_postgres(data or Path(folder)) as url:
            owner = await asyncpg.connect(url)
            await migrate(owner)
            async with open_database(url_for_role(url, APPLICATION_ROLE)) as database:
                store, embedder = PgVectorStore(database), LocalEmbedder()
                generation = await store.ensure_generation(embedder.model_id, DIMENSIONS)
                yield FilledIndex(url, owner, database, store, embedder, generation)
                await embedder.close()
            await owner.close()
