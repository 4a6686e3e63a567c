"""The pipeline in one call: what is accepted has gone through every stage when `accept` returns."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from pipeline.embedding.counting import CountingEmbedder
from pipeline.errors import RejectedError
from pipeline.events import changed
from pipeline.intake import Change
from pipeline.model import GenerationId, PassageId, TenantId
from pipeline.stages.chunk import Cutting, ThreadCutter, chunk
from pipeline.stages.embed import embed
from pipeline.stages.keeping import DraftKeeper
from pipeline.stages.outcome import Forward
from pipeline.store.blobs import DatabaseBlobs
from pipeline.store.database import Database
from pipeline.store.pgvector import PgVectorStore


class InlinePipeline:
    """`pipeline.intake.Accepting` that runs the stages itself."""

    def __init__(self, database: Database, generation_id: GenerationId, dimensions: int) -> None:
        self._store, self._generation_id = PgVectorStore(database), generation_id
        self._blobs, self._keeper = DatabaseBlobs(database), DraftKeeper(self._store)
        self._cutting = Cutting(200, 0)
        self._cutter, self._embedder = ThreadCutter(self._cutting), CountingEmbedder(dimensions)

    async def active(self) -> GenerationId:
        """See `pipeline.stages.embed.Generations`."""
        return self._generation_id

    async def embed(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Sequence[tuple[PassageId, str]]
    ) -> list[RejectedError]:
        """See `pipeline.stages.embed.Gatherer`."""
        await self._store.upsert(tenant_id, generation_id, {passage: self._embedder.vector(text) for passage, text in passages})
        return []

    async def accept(self, changes: Sequence[Change]) -> None:
        """Chunk, embed and sync each change."""
        for change in changes:
            content = None if change.content is None else base64.b64encode(change.content).decode()
            event = changed(change.data.model_copy(update={"content": content, "size_bytes": len(change.content or b"")}))
            first = await chunk(
                event, store=self._store, keeper=self._keeper, blobs=self._blobs, cutter=self._cutter, cutting=self._cutting, reused=lambda _: None
            )  # fmt: skip
            if isinstance(first, Forward):
                second = await embed(first.event, store=self._store, generations=self, gatherer=self)
                if isinstance(second, Forward):
                    await self._store.sync_document(event.tenant_id, event.document_id, second.event.data.fence, self._generation_id)
