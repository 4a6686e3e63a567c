"""The pipeline in one call: what is accepted has gone through every stage when `accept` returns."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import change_event
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.stages.batched_store import BatchedDraftStore
from livedex.pipeline.stages.chunk import ChunkStage
from livedex.pipeline.stages.document_chunker import ChunkerConfig, ThreadChunker
from livedex.pipeline.stages.embed import embed
from livedex.pipeline.stages.outcome import Forward
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore


class InlinePipeline:
    """`livedex.pipeline.ingest.ingester.ChangeSink` that runs the stages itself."""

    def __init__(self, database: Database, generation_id: GenerationId, dimensions: int) -> None:
        self._store, self._generation_id = PgVectorStore(database), generation_id
        self._blobs, self._keeper = PostgresBlobStore(database), BatchedDraftStore(self._store)
        self._cutting = ChunkerConfig(200, 0)
        self._cutter, self._embedder = ThreadChunker(self._cutting), FakeEmbedder(dimensions)

    async def active(self) -> GenerationId:
        """See `livedex.pipeline.stages.embed.ActiveGenerationProvider`."""
        return self._generation_id

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
        **_: object,
    ) -> list[RejectedError]:
        """See `livedex.pipeline.stages.embed.PassageEmbedder`."""
        await self._store.upsert_vectors(
            tenant_id,
            generation_id,
            {passage: self._embedder.vector(text) for passage, text in passages},
        )
        return []

    async def accept(self, changes: Sequence[Change]) -> None:
        """Chunk, embed and sync each change."""
        for change in changes:
            content = None if change.content is None else base64.b64encode(change.content).decode()
            event = change_event(
                change.data.model_copy(
                    update={"content": content, "size_bytes": len(change.content or b"")}
                )
            )
            first = await ChunkStage(
                store=self._store,
                drafts=self._keeper,
                blobs=self._blobs,
                chunker=self._cutter,
                config=self._cutting,
                record_reused=lambda _: None,
            ).run(event)
            if isinstance(first, Forward):
                second = await embed(
                    first.event, store=self._store, generations=self, embedder=self
                )
                if isinstance(second, Forward):
                    await self._store.sync_document(
                        event.tenant_id,
                        event.document_id,
                        second.event.data.fence,
                        self._generation_id,
                    )
