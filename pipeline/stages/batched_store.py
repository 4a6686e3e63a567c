"""What the stages ask of the store for documents that are worked on at the same time, in one transaction; see `livedex.pipeline.runtime.micro_batch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from livedex.pipeline.model import DocumentId, Fence, GenerationId, TenantId
from livedex.pipeline.runtime.micro_batch import Together
from livedex.pipeline.store.protocol import Draft, Missing, Synced, VectorStore

_AT_ONCE = 2  # transactions under way
_MOST_PIECES = 2000

Ask: TypeAlias = tuple[TenantId, DocumentId, Fence, GenerationId | None]


class DraftKeeper:
    """Keeps drafts through `VectorStore.keep_drafts`."""

    def __init__(self, store: VectorStore) -> None:
        self._keep: Together[Draft, int | None] = Together(
            store.keep_drafts, group=lambda draft: draft.tenant_id, identity=lambda draft: (draft.tenant_id, draft.document_id),
            size=lambda draft: len(draft.pieces), most_size=_MOST_PIECES, at_once=_AT_ONCE,
        )  # fmt: skip

    async def keep(self, draft: Draft) -> int | None:
        """Keep one; see `VectorStore.keep_drafts` for what comes back and what is raised."""
        return await self._keep(draft)


class MissingVectors:
    """Looks up what manifests lack through `VectorStore.missing_vectors_of`."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._look: Together[Ask, Missing | None] = Together(self._look_up, group=_tenant_and_generation)

    async def missing_vectors(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, generation_id: GenerationId
    ) -> Missing | None:
        """See `VectorStore.missing_vectors`."""
        return await self._look((tenant_id, document_id, fence, generation_id))

    async def _look_up(self, asks: Sequence[Ask]) -> list[Missing | None]:
        tenant_id, _, _, generation_id = asks[0]
        assert generation_id is not None
        return await self._store.missing_vectors_of(tenant_id, [(document_id, fence) for _, document_id, fence, _ in asks], generation_id)


class DocumentSyncer:
    """Makes versions visible through `VectorStore.sync_documents`."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._sync: Together[Ask, Synced] = Together(
            self._sync_all, group=_tenant_and_generation, identity=lambda ask: ask[:2], at_once=_AT_ONCE
        )

    async def sync_document(self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, generation_id: GenerationId | None) -> Synced:
        """See `VectorStore.sync_document`."""
        return await self._sync((tenant_id, document_id, fence, generation_id))

    async def _sync_all(self, asks: Sequence[Ask]) -> list[Synced | Exception]:
        tenant_id, _, _, generation_id = asks[0]
        return await self._store.sync_documents(tenant_id, [(document_id, fence) for _, document_id, fence, _ in asks], generation_id)


def _tenant_and_generation(ask: Ask) -> tuple[TenantId, GenerationId | None]:
    return ask[0], ask[3]
