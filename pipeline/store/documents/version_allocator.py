"""Versions for changes whose source names none, so that the later one wins, however many processes
give them at the same time.

A version is given before its event is published and is never given again. What a document is known
to have (synced, under way, dead) counts as given. The rows of the documents are locked in the order
of their ids, and everything is decided under these locks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livedex.pipeline.errors import ConflictError, NotFoundError
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.postgres.statements import sql

VERSION_LIMIT = 2**63
"""Every version is below."""


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """The version that a change of a document wants.

    Attributes:
        minimum: the version itself, where it is exact; else the time of the change, nanoseconds
            since
            1970; 0 <= least < `LIMIT`.
        room: versions from `least` on that mean the same time, by how exactly it is known: among
            them the one that arrives later gets the
            greater one. 1: `least` is exact, and what equal versions hold decides; see `Fence`.
        delivery_key: names what brought the change, by the sender's own id: when it comes again, it
            gets the version that it got. None: it
            needs none, since it is exact.
        deletes: a delete, which wins over everything of an equal version.
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
        builds_on: the newest version that was given before it; its event may never have been held.
        held: the newest whose event the broker holds for sure.
    """

    version: int
    builds_on: int
    held: int


def range_from(now_ns: int) -> int:
    """The room of a change whose time is only known to be now: newer than everything."""
    return VERSION_LIMIT - now_ns


def delivery_key(sender: str, delivery_id: str, document_id: str) -> bytes:
    """What a delivery is remembered by; `sender` and `delivery_id` as the sender says them."""
    return hashlib.sha256(
        "\x00".join((sender, delivery_id, document_id)).encode("utf-8", "surrogatepass")
    ).digest()


class VersionAllocator:
    """Gives versions. Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def give(self, tenant_id: TenantId, wanted: Sequence[VersionRequest]) -> list[int]:
        """Versions for changes, in their order; of one document, in the order in which they
        happened.

        Raises:
            ConflictError: a document has the greatest version there is.
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
        """The version of a patch: the next one, so that it builds on the newest that was given.

        Raises:
            NotFoundError: there is no such document, or it was deleted.
            ConflictError: it has the greatest version there is.
        """
        async with self._database.tenant(
            tenant_id, "give the version of a patch", durable=False
        ) as connection:
            rows = await connection.fetch(sql("lock_issued_versions"), tenant_id, [document_id])
            newest: int = rows[0]["version"]
            base = await connection.fetchrow(sql("patch_base"), tenant_id, document_id)
            assert base is not None
            if newest < 0 or (
                base["deleted_version"] is not None and base["deleted_version"] >= newest
            ):
                raise NotFoundError("no document is called so, or it was deleted")
            if newest + 1 >= VERSION_LIMIT:
                raise ConflictError(
                    "the document has the greatest version there is, so nothing can be "
                    "newer: delete it, and write it under another id"
                )
            await connection.execute(
                sql("keep_issued_versions"), tenant_id, [document_id], [newest + 1]
            )
        return PatchVersion(newest + 1, newest, base["accepted_version"])

    async def accepted(self, tenant_id: TenantId, versions: Mapping[DocumentId, int]) -> None:
        """Note that the broker holds the events of versions.

        Args:
            versions: the newest of each document.
        """
        documents = sorted(versions)
        async with self._database.tenant(
            tenant_id, f"{len(documents)} versions are held", durable=False
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
    """The version of one change; writes down that it was given."""
    if want.delivery_key is not None and want.delivery_key in known:
        return known[want.delivery_key]
    before, last = newest[want.document_id], want.minimum + want.room - 1
    version = min(before + 1, last) if want.minimum <= before <= last else want.minimum
    if want.room > 1 and version == before == VERSION_LIMIT - 1 and not want.deletes:
        raise ConflictError(
            "the document has the greatest version there is, so nothing can be newer: delete "
            "it, and write it under another id"
        )
    newest[want.document_id] = max(before, version)
    if want.delivery_key is not None:
        known[want.delivery_key] = version
    return version
