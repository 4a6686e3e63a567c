"""Creation and deletion of collections. Their documents change only through the pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from livedex.pipeline.errors import ConflictError
from livedex.pipeline.model import DEFAULT_COLLECTION, DocumentId, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import CollectionView
from livedex.pipeline.store.postgres.statements import sql


@dataclass(frozen=True, slots=True)
class CollectionDocument:
    """A document of a collection.

    Attributes:
        document_id: of the document.
        newest: its newest stored version, visible or not.
    """

    document_id: DocumentId
    newest: int


class CollectionStore:
    """Creates and deletes collections. Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant_id: TenantId, name: str) -> CollectionView:
        """Create an empty collection.

        Args:
            tenant_id: owner of the collection.
            name: of the collection.

        Raises:
            ConflictError: it already exists.
            TenantDeletedError: the tenant was deleted.
        """
        async with self._database.tenant(tenant_id, "create a collection") as connection:
            await connection.execute(sql("add_tenant"), tenant_id)
            row = (
                None
                if name == DEFAULT_COLLECTION
                else await connection.fetchrow(sql("make_collection"), tenant_id, name)
            )
        if row is None:
            raise ConflictError(f"collection {name} already exists")
        return CollectionView(**row)

    async def members(
        self, tenant_id: TenantId, name: str, above: str, limit: int
    ) -> list[CollectionDocument]:
        """Return the visible and pending documents of a collection, sorted by id.

        Args:
            tenant_id: owner of the collection.
            name: of the collection.
            above: lower bound of the ids, exclusive; empty for all.
            limit: maximum number of documents, >= 1.
        """
        async with self._database.tenant(tenant_id, "read a collection's documents") as connection:
            rows = await connection.fetch(sql("collection_members"), tenant_id, name, above, limit)
        return [CollectionDocument(DocumentId(row["document_id"]), row["newest"]) for row in rows]

    async def remove(self, tenant_id: TenantId, name: str) -> None:
        """Remove a collection; while it still has documents, it stays visible."""
        async with self._database.tenant(tenant_id, "remove a collection") as connection:
            await connection.execute(sql("drop_collection"), tenant_id, name)
