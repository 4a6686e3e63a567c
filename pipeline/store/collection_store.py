"""Collections of a tenant, made and taken away.

Their documents are another matter: those go through the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass

from livedex.pipeline.errors import ConflictError
from livedex.pipeline.model import DEFAULT_COLLECTION, DocumentId, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import CollectionView
from livedex.pipeline.store.postgres.statements import sql


@dataclass(frozen=True, slots=True)
class CollectionDocument:
    """A document of a collection; `newest` is the newest version that is known of it, visible or
    not.
    """

    document_id: DocumentId
    newest: int


class CollectionStore:
    """Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, tenant_id: TenantId, name: str) -> CollectionView:
        """Make an empty collection.

        Raises:
            ConflictError: there is one of this name.
            TenantDeletedError: the tenant was deleted.
        """
        async with self._database.tenant(tenant_id, "make a collection") as connection:
            await connection.execute(sql("add_tenant"), tenant_id)
            row = (
                None
                if name == DEFAULT_COLLECTION
                else await connection.fetchrow(sql("make_collection"), tenant_id, name)
            )
        if row is None:
            raise ConflictError("there is a collection of this name already")
        return CollectionView(**row)

    async def members(
        self, tenant_id: TenantId, name: str, above: str, limit: int
    ) -> list[CollectionDocument]:
        """Documents of a collection that are there or on their way, in the order of their ids.

        Args:
            above: only ids above this one; empty for all.
            limit: documents at most, >= 1.
        """
        async with self._database.tenant(tenant_id, "read a collection's documents") as connection:
            rows = await connection.fetch(sql("collection_members"), tenant_id, name, above, limit)
        return [CollectionDocument(DocumentId(row["document_id"]), row["newest"]) for row in rows]

    async def remove(self, tenant_id: TenantId, name: str) -> None:
        """Take away the collection itself; one that still has documents is seen until they are
        gone.
        """
        async with self._database.tenant(tenant_id, "remove a collection") as connection:
            await connection.execute(sql("drop_collection"), tenant_id, name)
