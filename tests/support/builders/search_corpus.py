"""Documents for tests of the search, stored through the store's own statements, chunk by chunk as
given.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.errors import LivedexError
from livedex.pipeline.model import Attributes, DocumentId, Fence, GenerationId, Reader, TenantId
from livedex.pipeline.search.engine import SearchEngine, SearchResult
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.drafts import Draft, DraftChunk

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = TenantId("acme")


class FakeVectorSpace:
    """A vector space whose embedder can be away.

    Attributes:
        generation_id, dimensions: None while nobody knows them.
        failure: raised by every query.
    """

    def __init__(self, generation_id: GenerationId | None, dimensions: int | None) -> None:
        self.generation_id = generation_id
        self.dimensions = dimensions
        self.embedder = FakeEmbedder(dimensions)
        self.failure: LivedexError | None = None

    async def load(self) -> None:
        """Nobody else makes a generation here."""

    async def embed_query(self, text: str, **_: object) -> Any:
        if self.failure is not None:
            raise self.failure
        return (await self.embedder.embed([text], kind="query"))[0]


class SearchIndex:
    """An index that tests fill and search.

    Attributes:
        engine: searches it; its vectors are hashes of words, so shared words mean nearness.
    """

    def __init__(self, database: Database, space: FakeVectorSpace, **engine: Any) -> None:
        self.database = database
        self.space = space
        self.store = PgVectorStore(database)
        self.engine = SearchEngine(database, space, space, **engine)
        self._version = 0

    @classmethod
    async def open(cls, database: Database, *, dimensions: int = 64, **engine: Any) -> SearchIndex:
        generation = await PgVectorStore(database).ensure_generation("counting", dimensions)
        return cls(database, FakeVectorSpace(generation, dimensions), **engine)

    @classmethod
    @asynccontextmanager
    async def reopened(cls, url: str, filled: SearchIndex) -> AsyncIterator[SearchIndex]:
        """One that was filled before, for as long as the block lasts."""
        async with open_database(url) as database:
            yield cls(
                database, FakeVectorSpace(filled.space.generation_id, filled.space.dimensions)
            )

    async def add(
        self,
        document_id: str,
        chunks: str | Sequence[str],
        *,
        tenant: TenantId = TENANT,
        collection: str = "default",
        heading: tuple[str, ...] = (),
        acl: tuple[str, ...] | None = None,
        **metadata: Any,
    ) -> None:
        """Store a document, or its next version; one blank line is between its chunks."""
        texts = [chunks] if isinstance(chunks, str) else list(chunks)
        self._version += 1
        fence = Fence(self._version, b"\0" + hashlib.sha256(repr(texts).encode()).digest())
        attributes = Attributes(
            collection=collection, title=document_id.rsplit("/", 1)[-1], metadata=metadata, acl=acl
        )
        pieces = [
            DraftChunk(hashlib.sha256(text.encode()).digest(), text, 2 if n else 0, heading)
            for n, text in enumerate(texts)
        ]
        name, generation = DocumentId(document_id), self.space.generation_id
        await self.store.accept(tenant, name, fence, attributes, NOW)
        await self.store.save_drafts(
            [Draft(tenant, name, fence, "synced", attributes, NOW, pieces)]
        )
        if generation is not None:
            missing = await self.store.missing_vectors(tenant, name, fence, generation)
            await self.store.upsert_vectors(
                tenant,
                generation,
                {passage: self.space.embedder.vector(text) for passage, text in missing},
            )
        await self.store.sync_document(tenant, name, fence, generation)

    async def delete(self, document_id: str, *, tenant: TenantId = TENANT) -> None:
        self._version += 1
        await self.store.delete_document(
            tenant, DocumentId(document_id), Fence(self._version, b"\1" + bytes(32))
        )

    async def ask(
        self,
        query: str | None = None,
        *,
        tenant: TenantId = TENANT,
        principals: frozenset[str] | None = None,
        **body: Any,
    ) -> SearchResult:
        return await self.engine.search(
            Reader(tenant, principals), SearchRequest(query=query, **body)
        )

    async def search(self, query: str | None = None, **body: Any) -> list[Any]:
        """The hits."""
        return list((await self.ask(query, **body)).hits)

    async def found(self, query: str | None = None, **body: Any) -> list[str]:
        """The documents of the hits, best first, each once."""
        return list(dict.fromkeys(hit["document_id"] for hit in await self.search(query, **body)))


def hit_positions(hits: Sequence[Any]) -> list[tuple[str, int]]:
    """Document and chunk of each hit."""
    return [(hit["document_id"], hit["chunk_index"]) for hit in hits]
