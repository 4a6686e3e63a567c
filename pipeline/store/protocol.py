"""Protocols of the stores. Every implementation passes the same contract tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from livedex.pipeline.costs.bill import EmbeddedPassages
from livedex.pipeline.costs.charges import EmbeddingCharges
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
"""Identifies one version of a document within a tenant."""


class VectorStore(Protocol):
    """Stores documents as lists of content-addressed passages with vectors.

    Every method may raise OutageError (the database is unavailable), RetryableError (a retry can
    succeed) and RejectedError (the values can never be stored).
    """

    async def ensure_generation(self, model_id: str, dimensions: int) -> GenerationId:
        """Return the generation of a model, created with its vector table if it is missing.

        Args:
            model_id: of the embedder.
            dimensions: of its vectors, >= 1.

        Raises:
            ConfigError: the store cannot index this many dimensions; the message says what to do.
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
        """Record that a version is being processed.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            fence: of the version.
            attributes: metadata of the version.
            accepted_at: time of acceptance, aware.
            arrival: of its event; None: it arrived at `accepted_at`.

        Returns:
            False if the version is superseded: a newer one is stored, this one has already ended,
            or it arrived before a delete without a version.
        """
        ...

    async def delete_arrived_before(
        self, tenant_id: TenantId, document_id: DocumentId, arrival: Arrival
    ) -> int | None:
        """Apply a delete without a version: changes that arrived before it never become visible.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            arrival: of the delete.

        Returns:
            The newest stored version of the document; None: the document does not exist, is
            deleted, or arrived after the delete.
        """
        ...

    async def apply_access_updates(
        self, tenant_id: TenantId, guarded: Sequence[AccessUpdate]
    ) -> None:
        """Apply ACLs and hide deleted documents before their versions are processed.

        An update has no effect if a newer version is stored.

        Args:
            tenant_id: owner of the documents.
            guarded: updates; several may concern one document.
        """
        ...

    async def existing_hashes(
        self, tenant_id: TenantId, hashes: Sequence[bytes]
    ) -> Mapping[bytes, PassageId]:
        """Return the passages that are already stored, by hash.

        Args:
            tenant_id: owner of the passages.
            hashes: SHA-256 of the texts.
        """
        ...

    async def save_drafts(self, drafts: Sequence[Draft]) -> list[int | None]:
        """Store versions with their manifests and new passages in one transaction, without making
        them visible. Idempotent.

        Args:
            drafts: of different documents of one tenant, at least one.

        Returns:
            For each draft, the number of passages that were not stored before; None: the version is
            superseded, see `accept`.
        """
        ...

    async def prepare(
        self,
        draft: Draft,
        generation_id: GenerationId,
        begin: Callable[[Sequence[str]], None] | None = None,
    ) -> PreparedVersion | None:
        """Accept a version and store its passages, but no manifest. The caller embeds the missing
        passages and calls `sync_prepared`.

        Args:
            draft: the version.
            generation_id: in which vectors are looked up.
            begin: called with the texts that have no vector, before the passages are stored, so
                that embedding can start early. The final `missing` differs only if another process
                stores one of these passages at the same time.

        Returns:
            The prepared version; None: the version is superseded, see `accept`.
        """
        ...

    async def sync_prepared(
        self,
        prepared: PreparedVersion,
        vectors: Mapping[PassageId, NDArray[np.float32]] | None = None,
        embedded: EmbeddedPassages | None = None,
    ) -> SyncResult:
        """Atomically publish a prepared version unless a newer one is visible.

        Args:
            prepared: the version.
            vectors: of missing passages, stored in the same transaction. Vectors that cost nothing
                to compute need not be stored earlier.
            embedded: passages that were embedded for it and are stored and charged already.

        Raises:
            RetryableError: a passage was garbage-collected meanwhile: prepare the version again.
        """
        ...

    async def missing_vectors(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId,
    ) -> MissingVectors | None:
        """Return the passages of a manifest that have no vector.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            fence: of the version.
            generation_id: in which vectors are looked up.

        Returns:
            Each passage once, with its text; None: the version is superseded, see `accept`.
        """
        ...

    async def missing_vectors_batch(
        self, tenant_id: TenantId, versions: Sequence[VersionKey], generation_id: GenerationId
    ) -> list[MissingVectors | None]:
        """Return the result of `missing_vectors` for each version, in order.

        Args:
            tenant_id: owner of the documents.
            versions: at least one.
            generation_id: in which vectors are looked up.
        """
        ...

    async def upsert_vectors(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        vectors: Mapping[PassageId, NDArray[np.float32]],
        *,
        durable: bool = True,
        charges: EmbeddingCharges | None = None,
    ) -> None:
        """Store vectors and charge them, in one transaction; existing vectors stay unchanged.

        Args:
            tenant_id: owner of the passages.
            generation_id: of the vectors.
            vectors: by passage, each of the generation's dimensions.
            durable: wait until they are flushed to disk. False: a crash of the database may lose
                the vectors of its last moments.
            charges: of the vectors; None: they took nothing.
        """
        ...

    async def sync_document(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId | None,
    ) -> SyncResult:
        """Atomically publish the manifest of a version unless a newer one is visible.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            fence: of the version.
            generation_id: active generation; None: no model was used yet.

        Raises:
            RejectedError: the manifest does not exist, and this version is not the visible one.
        """
        ...

    async def sync_documents(
        self,
        tenant_id: TenantId,
        versions: Sequence[VersionKey],
        generation_id: GenerationId | None,
    ) -> list[SyncResult | Exception]:
        """Publish versions as `sync_document` does, all in one transaction.

        Args:
            tenant_id: owner of the documents.
            versions: of different documents, at least one.
            generation_id: active generation; None: no model was used yet.

        Returns:
            For each version, in order, its result or its RejectedError.
        """
        ...

    async def delete_document(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence
    ) -> SyncResult:
        """Delete a document and leave a tombstone, unless a newer version is visible.

        A document that does not exist gets a tombstone, too.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            fence: of the delete.
        """
        ...

    async def health(self) -> None:
        """Return if the store answers.

        Raises:
            OutageError: it does not.
        """
        ...


class Contents(Protocol):
    """Reads the content that events refer to by its hash."""

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, sha256: str
    ) -> bytes:
        """Return the content of a version.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            version: of the document.
            sha256: of the content, in hexadecimal.

        Raises:
            RejectedError: the content does not exist.
        """
        ...


class BlobStore(Contents, Protocol):
    """Stores content that is too large for a message while an event refers to it.

    Every method may raise OutageError: the storage is unavailable or denies all access.
    """

    async def check(self) -> None:
        """Return if content can be stored; called at startup.

        Raises:
            ConfigError: the settings or the environment do not permit it.
        """
        ...

    async def put(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, content: bytes
    ) -> None:
        """Store the content of a version. Idempotent.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            version: of the document.
            content: of any length.
        """
        ...

    async def discard(self, tenant_id: TenantId, document_id: DocumentId, version: int) -> None:
        """Delete the content of a document's versions up to and including this one.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            version: the newest version to delete.
        """
        ...

    async def discard_tenant(self, tenant_id: TenantId) -> None:
        """Delete all content of a tenant.

        Args:
            tenant_id: owner of the content.
        """
        ...

    async def clear_ended(self, late_hours: float) -> None:
        """Delete content that no event can refer to any more.

        Args:
            late_hours: hours for which the content of a visible version is kept, because an event
                of the same version may still arrive.
        """
        ...


class AccessUpdater(Protocol):
    """Makes ACLs and deletes effective when they are accepted."""

    async def apply_access_updates(
        self, tenant_id: TenantId, guarded: Sequence[AccessUpdate]
    ) -> None:
        """Apply ACLs and hide deleted documents, unless a newer version is stored.

        Args:
            tenant_id: owner of the documents.
            guarded: updates; several may concern one document.

        Raises:
            OutageError: the database is unavailable.
            RetryableError: a retry can succeed.
            TenantDeletedError: the tenant was deleted.
        """
        ...
