"""Patches in the store: a version with the passages of its base version and changed attributes.

The base is the newest older version: a pending one, whose manifest is copied, or the visible one,
whose chunks are copied. So a patch embeds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.merge_patch import patch_attributes
from livedex.pipeline.model import (
    MAX_METADATA_BYTES,
    Attributes,
    DocumentId,
    Fence,
    ManifestEntry,
    PassageId,
    TenantId,
    shorten_id,
)
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.documents.document_sync import acl_column, version_columns
from livedex.pipeline.store.documents.manifests import insert_entries, read_manifests
from livedex.pipeline.store.drafts import Draft, PassageCounts
from livedex.pipeline.store.postgres.statements import sql

PatchOutcome = Literal["kept", "superseded", "waits"]


class DocumentPatcher:
    """Stores patches. Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def store_patch(
        self, base: Draft, patch: Mapping[str, Any], builds_on: int
    ) -> PatchOutcome:
        """Accept a patch and store its manifest, without making it visible.

        Args:
            base: the new version, without content, with the attributes of the event.
            patch: changed attributes.
            builds_on: the newest version at the time when the patch was accepted.

        Returns:
            `kept`; `superseded` by a newer version; or `waits` for the version `builds_on`, which
            is not stored yet.

        Raises:
            RejectedError: the base version is a dead letter, or the resulting metadata is too
                large.
        """
        tenant_id, document_id, fence = base.tenant_id, base.document_id, base.fence
        mine = (fence.version, fence.digest)
        async with self._database.tenant(
            tenant_id, f"patch {shorten_id(document_id)} v{fence.version}", durable=False
        ) as connection:
            row = await connection.fetchrow(sql("lock_for_patch"), tenant_id, document_id)
            if (
                row is None
                or max(
                    row["version"] or -1, row["pending_version"] or -1, row["dead_version"] or -1
                )
                < builds_on
            ):
                return "waits"
            pending = (
                None
                if row["pending_version"] is None
                else (row["pending_version"], row["pending_digest"])
            )
            if (row["version"] is not None and (row["version"], row["digest"]) >= mine) or (
                pending is not None and pending > mine
            ):
                return "superseded"
            if pending == mine:
                return "kept"
            if row["dead_version"] is not None and row["dead_version"] > (
                pending[0] if pending else row["version"] or -1
            ):
                raise RejectedError(
                    f"{shorten_id(document_id)} v{fence.version} changes "
                    f"v{row['dead_version']}, which is a dead letter: replay or drop that one "
                    "first",
                    reason="base_dead",
                )
            if pending is not None:
                found = await _base_from_manifest(connection, base, Fence(*pending))
            elif row["state"] in (None, "deleted"):
                return "superseded"
            else:
                found = await _base_from_document(connection, base, row)
            if found is None:
                return "superseded" if pending is not None and pending[1][0] else "waits"
            draft, entries = found
            draft = replace(draft, attributes=patch_attributes(draft.attributes, patch))
            _check_metadata_size(draft)
            await _accept(connection, draft)
            await insert_entries(connection, draft, entries)
        return "kept"


def _check_metadata_size(draft: Draft) -> None:
    import orjson

    size = len(orjson.dumps(dict(draft.attributes.metadata)))
    if size > MAX_METADATA_BYTES:
        raise RejectedError(
            f"{shorten_id(draft.document_id)} v{draft.fence.version}: the patched metadata has "
            f"{size} bytes as JSON, at most {MAX_METADATA_BYTES} are allowed",
            reason="too_large",
        )


async def _base_from_manifest(
    connection: Connection, base: Draft, fence: Fence
) -> tuple[Draft, Sequence[ManifestEntry]] | None:
    """Return the pending version with another fence; None: it is a delete, or has no manifest."""
    manifests = await read_manifests(connection, base.tenant_id, [(base.document_id, fence)])
    found = manifests.get((base.document_id, fence))
    if found is None or found[0].outcome == "deleted":
        return None
    draft, entries = found
    return replace(
        draft, fence=base.fence, accepted_at=base.accepted_at, arrival=base.arrival
    ), entries


async def _base_from_document(
    connection: Connection, base: Draft, row: Any
) -> tuple[Draft, Sequence[ManifestEntry]]:
    """Return the visible version with another fence."""
    chunks = await connection.fetch(sql("read_chunks"), base.tenant_id, [row["doc_id"]])
    entries = [
        ManifestEntry(PassageId(chunk[2]), chunk[3], chunk[4], tuple(chunk[5])) for chunk in chunks
    ]
    attributes = Attributes(
        row["collection"],
        row["source"],
        row["title"],
        row["uri"],
        row["mime_type"],
        row["metadata"],
        row["changed_at"],
        None if row["acl"] is None else tuple(row["acl"]),
    )
    work = PassageCounts(reused=len({entry.passage_id for entry in entries}))
    return replace(
        base,
        outcome=row["state"],
        attributes=attributes,
        cut=row["cut"],
        error=row["error"],
        work=work,
    ), entries


async def _accept(connection: Connection, draft: Draft) -> None:
    a, arrived = draft.attributes, draft.arrived
    versions: list[tuple[DocumentId, Fence]] = [(draft.document_id, draft.fence)]
    tenant_id: TenantId = draft.tenant_id
    await connection.execute(
        sql("accept_documents"),
        tenant_id,
        *version_columns(versions),
        [a.collection],
        [a.source],
        [a.title],
        [a.uri],
        [a.mime_type],
        [dict(a.metadata)],
        [a.changed_at],
        [draft.accepted_at],
        acl_column([a]),
        [arrived.at],
        [arrived.partition],
        [arrived.offset],
    )
