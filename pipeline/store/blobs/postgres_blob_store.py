"""Large content in the database, kept until the event that refers to it has ended."""

from __future__ import annotations

import hashlib

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import DocumentId, TenantId, shorten_id
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql


class PostgresBlobStore:
    """Implements `livedex.pipeline.store.protocol.BlobStore` on the table `blobs`.

    The sync stage deletes content of older versions, and maintenance the rest.

    Args:
        database: connected as the application's role.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self) -> None:
        """Return at once: the database was checked before."""

    async def put(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, content: bytes
    ) -> None:
        """Store the content of a version. Idempotent."""
        async with self._database.tenant(
            tenant_id, f"content of {shorten_id(document_id)} v{version}"
        ) as connection:
            await connection.execute(
                sql("put_blob"),
                tenant_id,
                document_id,
                version,
                hashlib.sha256(content).digest(),
                content,
            )

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, sha256: str
    ) -> bytes:
        """Return the content of a version.

        Raises:
            RejectedError: the content does not exist.
        """
        async with self._database.tenant(
            tenant_id, f"content of {shorten_id(document_id)} v{version}"
        ) as connection:
            content = await connection.fetchval(
                sql("get_blob"), tenant_id, document_id, version, bytes.fromhex(sha256)
            )
        if content is None:
            raise RejectedError(
                f"the content of {shorten_id(document_id)} v{version} was deleted: send the "
                "document again",
                reason="content_missing",
            )
        return bytes(content)

    async def discard(self, tenant_id: TenantId, document_id: DocumentId, version: int) -> None:
        """Delete the content of a document's versions up to and including this one."""
        async with self._database.tenant(
            tenant_id, f"content of {shorten_id(document_id)} v{version}"
        ) as connection:
            await connection.execute(sql("discard_blobs"), tenant_id, document_id, version)

    async def discard_tenant(self, tenant_id: TenantId) -> None:
        """Delete all content of a tenant."""
        async with self._database.tenant(tenant_id, "contents of a tenant") as connection:
            await connection.execute(sql("discard_all_blobs"), tenant_id)

    async def clear_ended(self, late_hours: float) -> None:
        """Delete content that no event can refer to any more."""
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "clear ended contents") as connection:
                await connection.execute(sql("clear_blobs"), tenant_id, late_hours)
