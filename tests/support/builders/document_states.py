"""Documents in the states that the stages produce, stored without running the stages."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from livedex.pipeline.errors import OutageError
from livedex.pipeline.model import Attributes, Fence
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.drafts import Draft, DraftChunk


def fence(version: int, *, deleted: bool = False) -> Fence:
    """What an event of this version is compared by."""
    return Fence(version, bytes([deleted]) + hashlib.sha256(str(version).encode()).digest())


class DocumentBuilder:
    """Brings documents into the states that the stages leave."""

    def __init__(self, database: Database) -> None:
        self.store = PgVectorStore(database)

    async def accept(
        self,
        document_id: str,
        version: int,
        *,
        tenant: str = "default",
        deleted: bool = False,
        **attributes: Any,
    ) -> None:
        """A version is under way."""
        await self.store.accept(
            tenant,
            document_id,
            fence(version, deleted=deleted),
            Attributes(**attributes),
            datetime.now(UTC),
        )

    async def sync(
        self,
        document_id: str,
        version: int,
        *texts: str,
        gap: int = 2,
        outcome: str = "synced",
        error: str | None = None,
        tenant: str = "default",
        **attributes: Any,
    ) -> None:
        """A version is visible, with these chunks `gap` characters apart."""
        await self.accept(document_id, version, tenant=tenant, **attributes)
        pieces = [
            DraftChunk(
                hashlib.sha256(text.encode()).digest(),
                text,
                gap if n else 0,
                ("Title", f"Part {n}"),
            )
            for n, text in enumerate(texts)
        ]
        draft = Draft(
            tenant,
            document_id,
            fence(version),
            outcome,
            Attributes(**attributes),
            datetime.now(UTC),
            pieces,
            error=error,
            keep=outcome == "unreadable",
        )
        await self.store.save_drafts([draft])
        assert (await self.store.sync_document(tenant, document_id, fence(version), None)).current

    async def delete(self, document_id: str, version: int) -> None:
        """The document is gone."""
        await self.store.delete_document("default", document_id, fence(version, deleted=True))


class UnavailableEmbedder:
    """An embedder that is away, and never was there."""

    generation_id = None
    dimensions = None

    async def load(self) -> None:
        pass

    async def embed_query(self, text: str, **_: object) -> Any:
        raise OutageError("embedder", "no answer", retry_after_s=7)
