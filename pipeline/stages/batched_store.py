"""What the stages ask of the store for documents that are worked on at the same time, in one
transaction; see `livedex.pipeline.runtime.micro_batch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from livedex.pipeline.model import DocumentId, Fence, GenerationId, TenantId
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.store.protocol import Draft, MissingVectors, SyncResult, VectorStore

_AT_ONCE = 2  # transactions under way
_MOST_PIECES = 2000

VersionRequest: TypeAlias = tuple[TenantId, DocumentId, Fence, GenerationId | None]


class BatchedDraftStore:
    """Keeps drafts through `VectorStore.save_drafts`."""

    def __init__(self, store: VectorStore) -> None:
        self._keep: MicroBatcher[Draft, int | None] = MicroBatcher(
            store.save_drafts,
            group=lambda draft: draft.tenant_id,
            identity=lambda draft: (draft.tenant_id, draft.document_id),
            size=lambda draft: len(draft.pieces),
            max_size=_MOST_PIECES,
            max_concurrent=_AT_ONCE,
        )

    async def keep(self, draft: Draft) -> int | None:
        """Keep one; see `VectorStore.save_drafts` for what comes back and what is raised."""
        return await self._keep(draft)


class BatchedMissingVectorLookup:
    """Looks up what manifests lack through `VectorStore.missing_vectors_batch`."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._look: MicroBatcher[VersionRequest, MissingVectors | None] = MicroBatcher(
            self._look_up, group=_tenant_and_generation
        )

    async def missing_vectors(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId,
    ) -> MissingVectors | None:
        """See `VectorStore.missing_vectors`."""
        return await self._look((tenant_id, document_id, fence, generation_id))

    async def _look_up(self, asks: Sequence[VersionRequest]) -> list[MissingVectors | None]:
        tenant_id, _, _, generation_id = asks[0]
        assert generation_id is not None
        return await self._store.missing_vectors_batch(
            tenant_id, [(document_id, fence) for _, document_id, fence, _ in asks], generation_id
        )


class BatchedVersionPublisher:
    """Makes versions visible through `VectorStore.sync_documents`."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._sync: MicroBatcher[VersionRequest, SyncResult] = MicroBatcher(
            self._sync_all,
            group=_tenant_and_generation,
            identity=lambda ask: ask[:2],
            max_concurrent=_AT_ONCE,
        )

    async def sync_document(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId | None,
    ) -> SyncResult:
        """See `VectorStore.sync_document`."""
        return await self._sync((tenant_id, document_id, fence, generation_id))

    async def _sync_all(self, asks: Sequence[VersionRequest]) -> list[SyncResult | Exception]:
        tenant_id, _, _, generation_id = asks[0]
        return await self._store.sync_documents(
            tenant_id, [(document_id, fence) for _, document_id, fence, _ in asks], generation_id
        )


def _tenant_and_generation(ask: VersionRequest) -> tuple[TenantId, GenerationId | None]:
    return ask[0], ask[3]
