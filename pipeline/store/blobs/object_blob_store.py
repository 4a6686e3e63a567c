"""Large content in object storage, kept until the event that refers to it has ended.

Keys are `SHA-256 of the tenant / SHA-256 of the document / version-SHA-256 of the content`. So no
name can reach the objects of another tenant or document, and no key is too long. The owner of an
object is found by hashing all existing names.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from livedex.pipeline.errors import OutageError, RejectedError
from livedex.pipeline.model import DocumentId, TenantId, shorten_id
from livedex.pipeline.store.blobs.object_storage import ObjectStorage, StoredObject
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

log = logging.getLogger(__name__)

_KEY = re.compile(r"([0-9a-f]{64})/([0-9a-f]{64})/([0-9]{20})-[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class _BlobObject:
    """An object with the parts of its key; tenant and document are hashes."""

    key: str
    tenant: str
    document: str
    version: int
    modified: datetime


class ObjectBlobStore:
    """Implements `livedex.pipeline.store.protocol.BlobStore` on object storage.

    Content that was stored in the database before object storage was configured is still found.

    Args:
        storage: a bucket or folder that no other installation uses.
        database: connected as the application's role.
    """

    def __init__(self, storage: ObjectStorage, database: Database) -> None:
        self._storage = storage
        self._database = database
        self._postgres_blobs = PostgresBlobStore(database)

    async def check(self) -> None:
        """Check that content can be stored; storage that does not answer only logs a warning."""
        try:
            await self._storage.check()
        except OutageError as exc:
            log.warning("documents above the inline limit are delayed: %s", exc)

    async def put(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, content: bytes
    ) -> None:
        """Store the content of a version. Idempotent."""
        sha256 = await asyncio.to_thread(_sha256, content)
        await self._storage.write(
            _key(tenant_id, document_id, version, sha256),
            content,
            f"content of {shorten_id(document_id)} v{version}",
        )

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, sha256: str
    ) -> bytes:
        """Return the content of a version.

        Raises:
            RejectedError: the content does not exist, or is damaged.
        """
        content = await self._storage.read(
            _key(tenant_id, document_id, version, sha256),
            f"content of {shorten_id(document_id)} v{version}",
        )
        if content is None:
            return await self._postgres_blobs.get(tenant_id, document_id, version, sha256)
        if await asyncio.to_thread(_sha256, content) != sha256:
            raise RejectedError(
                f"the content of {shorten_id(document_id)} v{version} is damaged, "
                f"{len(content)} bytes: send the document again",
                reason="content_missing",
            )
        return content

    async def discard(self, tenant_id: TenantId, document_id: DocumentId, version: int) -> None:
        """Delete the content of a document's versions up to and including this one."""
        what = f"content of {shorten_id(document_id)} up to v{version}"
        await self._postgres_blobs.discard(tenant_id, document_id, version)
        found = _parse_objects(
            await self._storage.stored(_document_prefix(tenant_id, document_id), what)
        )
        await self._storage.remove(
            [content.key for content in found if content.version <= version], what
        )

    async def discard_tenant(self, tenant_id: TenantId) -> None:
        """Delete all content of a tenant."""
        what = "contents of a tenant"
        await self._postgres_blobs.discard_tenant(tenant_id)
        await self._storage.remove(
            [
                content.key
                for content in _parse_objects(await self._storage.stored(_hash(tenant_id), what))
            ],
            what,
        )

    async def clear_ended(self, late_hours: float) -> None:
        """Delete content that no event can refer to any more."""
        await self._postgres_blobs.clear_ended(late_hours)
        what = "clear ended contents"
        await self._storage.remove_partial_writes(what)
        of_tenants: dict[str, list[_BlobObject]] = defaultdict(list)
        for content in _parse_objects(await self._storage.stored("", what)):
            of_tenants[content.tenant].append(content)
        if not of_tenants:
            return
        late = datetime.now(UTC) - timedelta(hours=late_hours)
        for tenant_id in await self._database.tenants():
            if contents := of_tenants.get(_hash(tenant_id)):
                await self._storage.remove(
                    await self._obsolete_keys(tenant_id, contents, late), what
                )

    async def _obsolete_keys(
        self, tenant_id: TenantId, contents: Sequence[_BlobObject], late: datetime
    ) -> list[str]:
        """Return the keys of contents that no event can refer to any more, which depends on the
        state of their documents, not only on their age.
        """
        async with self._database.tenant(tenant_id, "clear ended contents") as connection:
            rows = await connection.fetch(
                sql("ended_contents"),
                tenant_id,
                [bytes.fromhex(content.document) for content in contents],
                [content.version for content in contents],
                [content.modified < late for content in contents],
            )
        return [contents[row["place"] - 1].key for row in rows]


def _key(tenant_id: TenantId, document_id: DocumentId, version: int, sha256: str) -> str:
    return f"{_document_prefix(tenant_id, document_id)}/{version:020d}-{sha256}"


def _document_prefix(tenant_id: TenantId, document_id: DocumentId) -> str:
    return f"{_hash(tenant_id)}/{_hash(document_id)}"


def _hash(name: str) -> str:
    return _sha256(name.encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _parse_objects(stored: Sequence[StoredObject]) -> list[_BlobObject]:
    """Return the objects with a content key; others do not belong to Livedex."""
    matches = ((found, _KEY.fullmatch(found.key)) for found in stored)
    return [
        _BlobObject(found.key, m[1], m[2], int(m[3]), found.modified)
        for found, m in matches
        if m is not None
    ]
