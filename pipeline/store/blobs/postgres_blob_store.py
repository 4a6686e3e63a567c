"""Large content in the database, until the event that names it has ended."""

from __future__ import annotations

import hashlib

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import DocumentId, TenantId, shorten_id
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql


class PostgresBlobStore:
    """`livedex.pipeline.store.protocol.BlobStore` in the table `blobs`; sync_document discards
    what older versions left, and maintenance the rest.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self) -> None:
        """Nothing to find out: the database was there before."""

    async def put(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, content: bytes
    ) -> None:
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
        async with self._database.tenant(
            tenant_id, f"content of {shorten_id(document_id)} v{version}"
        ) as connection:
            content = await connection.fetchval(
                sql("get_blob"), tenant_id, document_id, version, bytes.fromhex(sha256)
            )
        if content is None:
            raise RejectedError(
                f"the content of {shorten_id(document_id)} v{version} is gone: send the "
                "document again",
                reason="content_missing",
            )
        return bytes(content)

    async def discard(self, tenant_id: TenantId, document_id: DocumentId, version: int) -> None:
        async with self._database.tenant(
            tenant_id, f"content of {shorten_id(document_id)} v{version}"
        ) as connection:
            await connection.execute(sql("discard_blobs"), tenant_id, document_id, version)

    async def discard_tenant(self, tenant_id: TenantId) -> None:
        async with self._database.tenant(tenant_id, "contents of a tenant") as connection:
            await connection.execute(sql("discard_all_blobs"), tenant_id)

    async def clear_ended(self, late_hours: float) -> None:
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "clear ended contents") as connection:
                await connection.execute(sql("clear_blobs"), tenant_id, late_hours)
