"""Manifests as rows: the chunk stage writes them, the sync stage reads them, and they are deleted
when their version becomes visible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from livedex.pipeline.costs.bill import EmbeddedPassages
from livedex.pipeline.model import Attributes, DocumentId, Fence, ManifestEntry, PassageId, TenantId
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.drafts import Draft, PassageCounts
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.protocol import VersionKey


async def insert_manifests(
    connection: Connection, drafts: Sequence[tuple[Draft, Sequence[PassageId]]]
) -> None:
    """Insert manifests. Idempotent.

    Args:
        connection: in a transaction of the tenant.
        drafts: each with the passages of its chunks, in order.
    """
    rows = [_row(draft, passage_ids) for draft, passage_ids in drafts]
    if len(rows) == 1:
        await connection.execute(sql("insert_manifest"), *rows[0])
    else:
        await connection.executemany(sql("insert_manifest"), rows)


async def insert_entries(
    connection: Connection, draft: Draft, entries: Sequence[ManifestEntry]
) -> None:
    """Insert a manifest whose passages are already stored. Idempotent.

    Args:
        connection: in a transaction of the tenant.
        draft: without chunks.
        entries: of the manifest, in order.
    """
    await connection.execute(sql("insert_manifest"), *_manifest_row(draft, entries))


def _row(draft: Draft, passage_ids: Sequence[PassageId]) -> tuple[Any, ...]:
    return _manifest_row(
        draft,
        [
            ManifestEntry(passage_id, piece.gap, len(piece.content), piece.heading)
            for passage_id, piece in zip(passage_ids, draft.pieces, strict=True)
        ],
    )


def _manifest_row(draft: Draft, entries: Sequence[ManifestEntry]) -> tuple[Any, ...]:
    paths = list(dict.fromkeys(entry.heading for entry in entries))
    index = {path: i for i, path in enumerate(paths)}
    headings = {
        "paths": [list(path) for path in paths],
        "of": [index[entry.heading] for entry in entries],
    }
    return (
        draft.tenant_id,
        draft.document_id,
        draft.fence.version,
        draft.fence.digest,
        draft.outcome,
        draft.keep,
        draft.cut,
        draft.error,
        _encode_attributes(draft.attributes)
        | ({} if draft.work is None else {"work": asdict(draft.work)}),
        [entry.passage_id for entry in entries],
        [entry.gap for entry in entries],
        [entry.length for entry in entries],
        headings,
        draft.accepted_at,
    )


async def read_manifests(
    connection: Connection, tenant_id: TenantId, versions: Sequence[VersionKey]
) -> dict[VersionKey, tuple[Draft, tuple[ManifestEntry, ...]]]:
    """Return the manifests of versions with their entries in order; missing ones are left out."""
    documents, fences = (
        [document_id for document_id, _ in versions],
        [fence for _, fence in versions],
    )
    rows = await connection.fetch(
        sql("read_manifests"),
        tenant_id,
        documents,
        [fence.version for fence in fences],
        [fence.digest for fence in fences],
    )
    return {
        (DocumentId(row["document_id"]), Fence(row["version"], row["digest"])): _manifest(
            tenant_id, row
        )
        for row in rows
    }


def _manifest(tenant_id: TenantId, row: Any) -> tuple[Draft, tuple[ManifestEntry, ...]]:
    paths = [tuple(path) for path in row["headings"]["paths"]]
    entries = tuple(
        ManifestEntry(PassageId(passage), gap, length, paths[path])
        for passage, gap, length, path in zip(
            row["passage_ids"], row["gaps"], row["lengths"], row["headings"]["of"], strict=True
        )
    )
    work = row["attributes"].pop("work", None)  # missing in manifests of older releases
    draft = Draft(
        tenant_id,
        DocumentId(row["document_id"]),
        Fence(row["version"], row["digest"]),
        row["outcome"],
        _decode_attributes(row["attributes"]),
        row["accepted_at"],
        cut=row["cut"],
        keep=row["keep"],
        error=row["error"],
        work=None if work is None else PassageCounts(**work),
        embedded=None
        if row["embedded_texts"] is None
        else EmbeddedPassages(
            row["embedded_texts"], row["embedded_tokens"], row["estimated_tokens"]
        ),
    )
    return draft, entries


def _encode_attributes(a: Attributes) -> dict[str, Any]:
    changed_at = a.changed_at.isoformat() if a.changed_at else None
    acl = None if a.acl is None else list(a.acl)
    return {
        "collection": a.collection,
        "source": a.source,
        "title": a.title,
        "uri": a.uri,
        "mime_type": a.mime_type,
        "metadata": dict(a.metadata),
        "changed_at": changed_at,
        "acl": acl,
    }


def _decode_attributes(value: dict[str, Any]) -> Attributes:
    # manifests of older releases have no ACL
    changed_at, acl = value.pop("changed_at"), value.pop("acl", None)
    return Attributes(
        **value,
        changed_at=datetime.fromisoformat(changed_at) if changed_at else None,
        acl=None if acl is None else tuple(acl),
    )
