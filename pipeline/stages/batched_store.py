"""Batch the stages' calls of the store for concurrent documents into one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from livedex.pipeline.model import DocumentId, Fence, GenerationId, TenantId
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.store.drafts import Draft, MissingVectors, SyncResult
from livedex.pipeline.store.protocol import VectorStore

_MAX_TRANSACTIONS = 2
_MAX_CHUNKS = 2000

VersionRequest: TypeAlias = tuple[TenantId, DocumentId, Fence, GenerationId | None]


class BatchedDraftStore:
    """Stores drafts through `VectorStore.save_drafts`."""

    def __init__(self, store: VectorStore) -> None:
        self._batches: MicroBatcher[Draft, int | None] = MicroBatcher(
            store.save_drafts,
            group=lambda draft: draft.tenant_id,
            identity=lambda draft: (draft.tenant_id, draft.document_id),
            size=lambda draft: len(draft.pieces),
            max_size=_MAX_CHUNKS,
            max_concurrent=_MAX_TRANSACTIONS,
        )

    async def store_draft(self, draft: Draft) -> int | None:
        """Store a draft; see `VectorStore.save_drafts`.

        Args:
            draft: of a version.
        """
        return await self._batches(draft)


class BatchedMissingVectorLookup:
    """Looks up missing vectors through `VectorStore.missing_vectors_batch`."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._batches: MicroBatcher[VersionRequest, MissingVectors | None] = MicroBatcher(
            self._look_up_batch, group=_tenant_and_generation
        )

    async def missing_vectors(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId,
    ) -> MissingVectors | None:
        """See `VectorStore.missing_vectors`."""
        return await self._batches((tenant_id, document_id, fence, generation_id))

    async def _look_up_batch(
        self, requests: Sequence[VersionRequest]
    ) -> list[MissingVectors | None]:
        tenant_id, _, _, generation_id = requests[0]
        assert generation_id is not None
        return await self._store.missing_vectors_batch(
            tenant_id,
            [(document_id, fence) for _, document_id, fence, _ in requests],
            generation_id,
        )


class BatchedVersionPublisher:
    """Makes versions visible through `VectorStore.sync_documents`."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._batches: MicroBatcher[VersionRequest, SyncResult] = MicroBatcher(
            self._sync_batch,
            group=_tenant_and_generation,
            identity=lambda request: request[:2],
            max_concurrent=_MAX_TRANSACTIONS,
        )

    async def sync_document(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId | None,
    ) -> SyncResult:
        """See `VectorStore.sync_document`."""
        return await self._batches((tenant_id, document_id, fence, generation_id))

    async def _sync_batch(self, requests: Sequence[VersionRequest]) -> list[SyncResult | Exception]:
        tenant_id, _, _, generation_id = requests[0]
        return await self._store.sync_documents(
            tenant_id,
            [(document_id, fence) for _, document_id, fence, _ in requests],
            generation_id,
        )


def _tenant_and_generation(request: VersionRequest) -> tuple[TenantId, GenerationId | None]:
    return request[0], request[3]
