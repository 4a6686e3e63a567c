"""A store filled as the stages fill it, and how readers see it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.model import Attributes, DocumentId, Fence, GenerationId, Reader, TenantId
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.drafts import Draft, DraftChunk, SyncResult
from livedex.pipeline.store.protocol import VectorStore
from tests.support.builders.search_corpus import FakeVectorSpace

ACME, OTHER = TenantId("acme"), TenantId("other")
A, B = DocumentId("docs/a.md"), DocumentId("docs/b.md")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DIMENSIONS = 16
GAP = 2


def fence(version: int, *, deleted: bool = False, digest: int = 0) -> Fence:
    return Fence(version, bytes([deleted, digest]) + bytes(31))


def sha(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def sections(*numbers: int) -> list[str]:
    """Texts that no other number gives; the word `only<number>` is in one of them."""
    return [f"Section only{n}: words of the section {'and more ' * 5}only{n}" for n in numbers]


@dataclass(frozen=True, slots=True)
class VisibleDocument:
    """A document as readers see it: `(content, start, end, heading)` of each chunk."""

    version: int
    state: str
    metadata: dict[str, Any]
    chunks: list[tuple[str, int, int, tuple[str, ...]]]

    @property
    def contents(self) -> list[str]:
        return [chunk[0] for chunk in self.chunks]


class StoreHarness:
    """A store under test, filled as the stages fill it, and how readers see it.

    Attributes:
        embedder: counts the texts that had no vector.
        documents: reads what is visible.
    """

    def __init__(self, store: VectorStore, database: Database, generation_id: GenerationId) -> None:
        self.store, self.generation_id, self.embedder = (
            store,
            generation_id,
            FakeEmbedder(DIMENSIONS),
        )
        self.documents = DocumentQueries(database)
        space = FakeVectorSpace(generation_id, DIMENSIONS)
        self._engine = SearchEngine(database, space, space)

    def draft(
        self,
        document_id: DocumentId,
        version: Fence,
        texts: Sequence[str],
        *,
        tenant: TenantId = ACME,
        heading: tuple[str, ...] = (),
        outcome: str = "synced",
        **metadata: Any,
    ) -> Draft:
        pieces = [
            DraftChunk(sha(text), text, GAP if n else 0, heading) for n, text in enumerate(texts)
        ]
        return Draft(
            tenant, document_id, version, outcome, Attributes(metadata=metadata), NOW, pieces
        )

    async def prepare(self, draft: Draft) -> None:
        """All that precedes the sync."""
        await self.store.accept(
            draft.tenant_id, draft.document_id, draft.fence, draft.attributes, NOW
        )
        await self.store.save_drafts([draft])
        missing = await self.store.missing_vectors(
            draft.tenant_id, draft.document_id, draft.fence, self.generation_id
        )
        if missing:
            vectors = await self.embedder.embed([text for _, text in missing], kind="document")
            await self.store.upsert_vectors(
                draft.tenant_id,
                self.generation_id,
                dict(zip((i for i, _ in missing), vectors, strict=True)),
            )

    async def sync(self, draft: Draft) -> SyncResult:
        return await self.store.sync_document(
            draft.tenant_id, draft.document_id, draft.fence, self.generation_id
        )

    async def put(
        self, document_id: DocumentId, version: int, texts: Sequence[str], **more: Any
    ) -> SyncResult:
        draft = self.draft(document_id, fence(version), texts, **more)
        await self.prepare(draft)
        return await self.sync(draft)

    async def visible_document(
        self, document_id: DocumentId, tenant: TenantId = ACME
    ) -> VisibleDocument | None:
        """What is visible of a document; its places are checked against each other."""
        document, view = (
            await self.documents.get(Reader(tenant), document_id),
            await self.documents.chunks(Reader(tenant), document_id),
        )
        if document is None or document.version is None:
            return None
        assert view is not None and [c.chunk_index for c in view.chunks] == list(
            range(len(view.chunks))
        )
        assert document.chunk_count == len(view.chunks)
        chunks = [(c.content, c.start, c.end, tuple(c.heading)) for c in view.chunks]
        return VisibleDocument(document.version, document.state, document.metadata, chunks)

    async def found(self, word: str, mode: Any, tenant: TenantId = ACME, **body: Any) -> list[str]:
        """The documents with a hit that holds this word."""
        answer = await self._engine.search(
            Reader(tenant), SearchRequest(query=word, mode=mode, limit=50, **body)
        )
        return sorted(
            {
                hit["document_id"]
                for hit in answer.hits
                if word in re.findall(r"\w+", hit["content"])
            }
        )


def expected_chunks(
    texts: Sequence[str], heading: tuple[str, ...] = ()
) -> list[tuple[str, int, int, tuple[str, ...]]]:
    """The chunks as they must be seen."""
    found, start = [], 0
    for text in texts:
        found.append((text, start, start + len(text), heading))
        start += len(text) + GAP
    return found
