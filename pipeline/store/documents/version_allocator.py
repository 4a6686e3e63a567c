"""Allocation of versions for changes whose source gives none: the later change gets the greater
version, however many processes allocate at the same time.

A version is allocated before its event is published, and is never allocated twice. Versions that a
document already has (synced, pending, dead) count as allocated. The rows of the documents are
locked first, sorted by id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livedex.pipeline.errors import ConflictError, NotFoundError
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.postgres.statements import sql

_VERSIONS_EXHAUSTED = (
    "the document already has the greatest possible version: delete it, and write it under "
    "another id"
)
VERSION_LIMIT = 2**63
"""Upper bound of versions, exclusive."""


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """A request for the version of a change.

    Attributes:
        document_id: of the document.
        minimum: the exact version, or the time of the change in nanoseconds since 1970;
            0 <= minimum < `VERSION_LIMIT`.
        room: number of versions from `minimum` on that stand for the same time, according to the
            precision of the time. Among them, the later arrival gets the greater version. 1:
            `minimum` is exact, and the digest decides between equal versions; see `Fence`.
        delivery_key: identifies the delivery by the sender's id: a repeated delivery gets the same
            version. None: the version is exact.
        deletes: whether it is a delete, which beats content of an equal version.
    """

    document_id: DocumentId
    minimum: int
    room: int = 1
    delivery_key: bytes | None = None
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class PatchVersion:
    """The version of a patch.

    Attributes:
        version: of the patch.
        builds_on: the newest version allocated before it; its event may not have been published.
        held: the newest version whose event the broker has certainly stored.
    """

    version: int
    builds_on: int
    held: int


def range_from(now_ns: int) -> int:
    """Return the room of a change that has no time: all versions from now on."""
    return VERSION_LIMIT - now_ns


def delivery_key(sender: str, delivery_id: str, document_id: str) -> bytes:
    """Return the key that identifies a delivery.

    Args:
        sender: name of the sender.
        delivery_id: the sender's id of the delivery.
        document_id: of the document.
    """
    return hashlib.sha256(
        "\x00".join((sender, delivery_id, document_id)).encode("utf-8", "surrogatepass")
    ).digest()


class VersionAllocator:
    """Allocates versions. Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def give(self, tenant_id: TenantId, wanted: Sequence[VersionRequest]) -> list[int]:
        """Return versions for changes, in the same order.

        Args:
            tenant_id: owner of the documents.
            wanted: changes of one document stand in the order in which they happened.

        Raises:
            ConflictError: a document already has the greatest possible version.
        """
        documents = sorted({want.document_id for want in wanted})
        keys = [want.delivery_key for want in wanted if want.delivery_key is not None]
        async with self._database.tenant(
            tenant_id, f"give {len(wanted)} versions", durable=False
        ) as connection:
            rows = await connection.fetch(sql("lock_issued_versions"), tenant_id, documents)
            newest = {row["document_id"]: row["version"] for row in rows}
            known = await _earlier_deliveries(connection, tenant_id, keys)
            given = [_choose_version(want, newest, known) for want in wanted]
            await connection.execute(
                sql("keep_issued_versions"),
                tenant_id,
                documents,
                [newest[document] for document in documents],
            )
            if keys:
                await connection.execute(
                    sql("keep_deliveries"), tenant_id, keys, [known[key] for key in keys]
                )
        return given

    async def allocate_patch(self, tenant_id: TenantId, document_id: DocumentId) -> PatchVersion:
        """Return the version of a patch: the next one after the newest allocated version.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.

        Raises:
            NotFoundError: the document does not exist, or was deleted.
            ConflictError: it already has the greatest possible version.
        """
        async with self._database.tenant(
            tenant_id, "allocate the version of a patch", durable=False
        ) as connection:
            rows = await connection.fetch(sql("lock_issued_versions"), tenant_id, [document_id])
            newest: int = rows[0]["version"]
            base = await connection.fetchrow(sql("patch_base"), tenant_id, document_id)
            assert base is not None
            if newest < 0 or (
                base["deleted_version"] is not None and base["deleted_version"] >= newest
            ):
                raise NotFoundError("the document does not exist, or was deleted")
            if newest + 1 >= VERSION_LIMIT:
                raise ConflictError(_VERSIONS_EXHAUSTED)
            await connection.execute(
                sql("keep_issued_versions"), tenant_id, [document_id], [newest + 1]
            )
        return PatchVersion(newest + 1, newest, base["accepted_version"])

    async def accepted(self, tenant_id: TenantId, versions: Mapping[DocumentId, int]) -> None:
        """Record that the broker has stored the events of versions.

        Args:
            tenant_id: owner of the documents.
            versions: the newest one of each document.
        """
        documents = sorted(versions)
        async with self._database.tenant(
            tenant_id, f"record {len(documents)} published versions", durable=False
        ) as connection:
            await connection.execute(
                sql("keep_accepted_versions"),
                tenant_id,
                documents,
                [versions[each] for each in documents],
            )


async def _earlier_deliveries(
    connection: Connection, tenant_id: TenantId, keys: Sequence[bytes]
) -> dict[bytes, int]:
    if not keys:
        return {}
    return {
        row["key"]: row["version"]
        for row in await connection.fetch(sql("read_deliveries"), tenant_id, keys)
    }


def _choose_version(want: VersionRequest, newest: dict[str, int], known: dict[bytes, int]) -> int:
    """Return the version of a change, and record it in `newest` and `known`.

    Raises:
        ConflictError: the document already has the greatest possible version.
    """
    if want.delivery_key is not None and want.delivery_key in known:
        return known[want.delivery_key]
    before, last = newest[want.document_id], want.minimum + want.room - 1
    version = min(before + 1, last) if want.minimum <= before <= last else want.minimum
    if want.room > 1 and version == before == VERSION_LIMIT - 1 and not want.deletes:
        raise ConflictError(_VERSIONS_EXHAUSTED)
    newest[want.document_id] = max(before, version)
    if want.delivery_key is not None:
        known[want.delivery_key] = version
    return version
