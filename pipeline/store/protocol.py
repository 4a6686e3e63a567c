"""What the stages ask of a store. Every implementation passes one contract suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from livedex.pipeline.model import (
    Arrival,
    Attributes,
    DocumentId,
    Fence,
    GenerationId,
    PassageId,
    TenantId,
)
from livedex.pipeline.store.drafts import (
    AccessUpdate,
    Draft,
    MissingVectors,
    PreparedVersion,
    SyncResult,
)

VersionKey: TypeAlias = tuple[DocumentId, Fence]
"""One version of a document of a tenant."""


class VectorStore(Protocol):
    """Documents as lists of content-addressed passages, with their vectors.

    Every method may raise OutageError (the database is away), RetryableError (it works the next
    time) and RejectedError (the values can never be stored).
    """

    async def ensure_generation(self, model_id: str, dimensions: int) -> GenerationId:
        """The generation of a model, with the place for its vectors made where it was missing.

        Raises:
            ConfigError: more dimensions than the store can index; the message says what to do.
        """
        ...

    async def accept(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        attributes: Attributes,
        accepted_at: datetime,
        arrival: Arrival | None = None,
    ) -> bool:
        """Note that a version is under way; False when a newer one is known, this very one has
        ended, or it arrived before a delete without a
        version.
        """
        ...

    async def delete_arrived_before(
        self, tenant_id: TenantId, document_id: DocumentId, arrival: Arrival
    ) -> int | None:
        """Take a delete without a version: from now on, nothing that arrived before it becomes
        visible.

        Returns:
            The newest version known of the document; None when there is none, it is deleted, or it
            arrived after the delete.
        """
        ...

    async def apply_access_updates(
        self, tenant_id: TenantId, guarded: Sequence[AccessUpdate]
    ) -> None:
        """Let the rights of versions hold, and hide deleted documents, before these versions are
        processed; unless something newer is there.
        """
        ...

    async def existing_hashes(
        self, tenant_id: TenantId, hashes: Sequence[bytes]
    ) -> Mapping[bytes, PassageId]:
        """Which passages are known, by their hash."""
        ...

    async def save_drafts(self, drafts: Sequence[Draft]) -> list[int | None]:
        """Accept versions of documents and keep their manifests with the passages that were not
        known, in one transaction; visible is
        none of it. Repetition changes nothing.

        Args:
            drafts: of different documents of one tenant, at least one.

        Returns:
            For each, how many passages were not known; None where a newer version is known, or this
            very one has ended.
        """
        ...

    async def prepare(
        self,
        draft: Draft,
        generation_id: GenerationId,
        begin: Callable[[Sequence[str]], None] | None = None,
    ) -> PreparedVersion | None:
        """Accept a version and keep its passages, but no manifest: for who embeds what is missing
        and calls `sync_prepared` at once.

        Args:
            begin: given the texts that have no vector as soon as they are known, while the passages
                are being kept. They are all that is
                missing, unless somebody else keeps one of them at the same time.

        Returns:
            None where a newer version is known, or this very one has ended.
        """
        ...

    async def sync_prepared(
        self,
        prepared: PreparedVersion,
        vectors: Mapping[PassageId, NDArray[np.float32]] | None = None,
    ) -> SyncResult:
        """Swap what is visible of a document for what was prepared, in one transaction, unless
        something newer is there.

        Args:
            vectors: of what was missing, to be kept in the same transaction; those that nobody was
                paid for need not be kept before.

        Raises:
            RetryableError: a passage was cleared away meanwhile: prepare the version again.
        """
        ...

    async def missing_vectors(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId,
    ) -> MissingVectors | None:
        """The passages of a manifest that have no vector, each once, with their texts; None when a
        newer version is known, or this one ended.
        """
        ...

    async def missing_vectors_batch(
        self, tenant_id: TenantId, versions: Sequence[VersionKey], generation_id: GenerationId
    ) -> list[MissingVectors | None]:
        """`missing_vectors` of many, at least one, in their order."""
        ...

    async def upsert_vectors(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        vectors: Mapping[PassageId, NDArray[np.float32]],
        *,
        durable: bool = True,
    ) -> None:
        """Keep vectors as soon as they are paid for; a vector that is there stays.

        Args:
            durable: wait until they are on disk. Without it a crash of the database loses what was
                kept in its last moments.
        """
        ...

    async def sync_document(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId | None,
    ) -> SyncResult:
        """Swap what is visible of a document for its manifest, in one transaction, unless something
        newer is there.

        Raises:
            RejectedError: there is no such manifest, and this version is not the stored one.
        """
        ...

    async def sync_documents(
        self,
        tenant_id: TenantId,
        versions: Sequence[VersionKey],
        generation_id: GenerationId | None,
    ) -> list[SyncResult | Exception]:
        """`sync_document` for versions of different documents, at least one, all in one
        transaction.

        Returns:
            For each, in their order, what was done, or the RejectedError that is its own.
        """
        ...

    async def delete_document(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence
    ) -> SyncResult:
        """Leave a tombstone, unless something newer is there; deleting what is not there leaves
        one too.
        """
        ...

    async def health(self) -> None:
        """Returns when the store answers; raises OutageError when it does not."""
        ...


class Contents(Protocol):
    """Has the content that events name by its hash."""

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, sha256: str
    ) -> bytes:
        """The content.

        Raises:
            RejectedError: it is not there.
        """
        ...


class BlobStore(Contents, Protocol):
    """Keeps content that is too large for a message, for as long as an event names it.

    Every method may raise OutageError: the place is away, or refuses everybody.
    """

    async def check(self) -> None:
        """Find out at the start whether content can be kept.

        Raises:
            ConfigError: the settings or the surroundings do not allow it.
        """
        ...

    async def put(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, content: bytes
    ) -> None:
        """Keep it; putting the same again changes nothing."""
        ...

    async def discard(self, tenant_id: TenantId, document_id: DocumentId, version: int) -> None:
        """Let go of what this document had waiting up to and including this version."""
        ...

    async def discard_tenant(self, tenant_id: TenantId) -> None:
        """Let go of everything that a tenant had waiting."""
        ...

    async def clear_ended(self, late_hours: float) -> None:
        """Let go of whatever no event can name any more.

        Args:
            late_hours: how long the content of a visible version is kept, for another event of an
                equal version.
        """
        ...


class AccessUpdater(Protocol):
    """Makes rights and deletes hold from when they are accepted."""

    async def apply_access_updates(
        self, tenant_id: TenantId, guarded: Sequence[AccessUpdate]
    ) -> None:
        """Let the rights of versions hold, and hide deleted documents, unless something newer is
        there.

        Raises:
            OutageError, RetryableError: not now.
            TenantDeletedError: there is nothing left to guard.
        """
        ...
