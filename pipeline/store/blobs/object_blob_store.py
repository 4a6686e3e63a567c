"""Large content in object storage, until the event that names it has ended.

Keys are `SHA-256 of the tenant / SHA-256 of the document / version-SHA-256 of the content`: however
a name is written, it cannot reach the place of another tenant or document, and none is too long.
Whose an object is is found by hashing the names that there are.
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
    """An object, with what its key says; tenant and document are hashes."""

    key: str
    tenant: str
    document: str
    version: int
    modified: datetime


class ObjectBlobStore:
    """`livedex.pipeline.store.protocol.BlobStore` in object storage.

    Content that was put into the database before the storage was configured is still found there.

    Args:
        storage: a place of this installation alone.
    """

    def __init__(self, storage: ObjectStorage, database: Database) -> None:
        self._storage = storage
        self._database = database
        self._postgres_blobs = PostgresBlobStore(database)

    async def check(self) -> None:
        """See the protocol. Storage that does not answer now is waited for by whoever needs it."""
        try:
            await self._storage.check()
        except OutageError as exc:
            log.warning("documents above the inline limit have to wait: %s", exc)

    async def put(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, content: bytes
    ) -> None:
        sha256 = await asyncio.to_thread(_sha256, content)
        await self._storage.write(
            _key(tenant_id, document_id, version, sha256),
            content,
            f"content of {shorten_id(document_id)} v{version}",
        )

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, sha256: str
    ) -> bytes:
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
        what = f"content of {shorten_id(document_id)} up to v{version}"
        await self._postgres_blobs.discard(tenant_id, document_id, version)
        found = _parse_objects(
            await self._storage.stored(_document_prefix(tenant_id, document_id), what)
        )
        await self._storage.remove(
            [content.key for content in found if content.version <= version], what
        )

    async def discard_tenant(self, tenant_id: TenantId) -> None:
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
        """The keys of contents that no event can name any more: the state of their documents
        decides, not their age alone.
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
    """What of the stored is content; what else stands there is none of ours."""
    matches = ((found, _KEY.fullmatch(found.key)) for found in stored)
    return [
        _BlobObject(found.key, m[1], m[2], int(m[3]), found.modified)
        for found, m in matches
        if m is not None
    ]
