"""Atomic publication of document versions, many in one transaction.

Invariants: the rows of the documents are locked first, sorted by id. The statement that writes also
checks the version fence. A superseded version changes nothing but deletes its manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from livedex.pipeline.costs.bill import Bill, EmbeddedPassages, ModelPrice
from livedex.pipeline.costs.token_counts import estimate_total
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.notifications import notification_of_version
from livedex.pipeline.model import (
    Attributes,
    DocumentId,
    GenerationId,
    ManifestEntry,
    PassageId,
    TenantId,
    shorten_id,
)
from livedex.pipeline.store.cost_ledger import VersionCost, count_version_costs
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.documents.chunk_diff import ChunkDiff, ChunkRow, diff_chunks
from livedex.pipeline.store.documents.document_fields import (
    FieldSettings,
    fields_of_version,
    write_fields,
)
from livedex.pipeline.store.documents.manifests import read_manifests
from livedex.pipeline.store.drafts import Draft, SyncResult
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.protocol import VersionKey

SYNC_ENDED_CHANNEL = "livedex_ended"


def sync_ended_payload(tenant_id: str, document_id: str) -> str:
    """Return the payload for `SYNC_ENDED_CHANNEL` when processing of a document's event ended."""
    return hashlib.sha256(f"{tenant_id}\x00{document_id}".encode()).hexdigest()


def version_columns(
    versions: Iterable[VersionKey],
) -> tuple[list[DocumentId], list[int], list[bytes]]:
    """Return document ids, versions and digests as statement parameters."""
    found = list(versions)
    return (
        [document_id for document_id, _ in found],
        [fence.version for _, fence in found],
        [fence.digest for _, fence in found],
    )


def acl_column(attributes: Iterable[Attributes]) -> list[list[str] | None]:
    """Return the ACLs of documents as a statement parameter."""
    return [None if a.acl is None else list(a.acl) for a in attributes]


async def sync_versions(
    connection: Connection,
    tenant_id: TenantId,
    versions: Sequence[VersionKey],
    generation_id: GenerationId | None,
    fields: FieldSettings,
    model: ModelPrice | None = None,
) -> list[SyncResult | Exception]:
    """See `VectorStore.sync_documents`."""
    manifests = await read_manifests(connection, tenant_id, versions)
    stored: dict[str, Any] = {}
    if len(versions) > 1 or not manifests:
        rows = await connection.fetch(
            sql("lock_documents"), tenant_id, [document_id for document_id, _ in versions]
        )
        stored = {row["document_id"]: row for row in rows}
    done = dict(
        zip(
            manifests,
            await apply_versions(
                connection,
                tenant_id,
                list(manifests.values()),
                generation_id,
                fields,
                model=model,
            ),
            strict=True,
        )
    )
    return [
        done.get(version) or _without_manifest(version, stored.get(version[0]))
        for version in versions
    ]


def _without_manifest(version: VersionKey, stored: Any) -> SyncResult | Exception:
    document_id, fence = version
    if stored is not None:
        mine = (fence.version, fence.digest)
        if (stored["version"], stored["digest"]) == mine:
            # redelivered: the first delivery may have been cut off before its notifications
            return SyncResult(current=True)
        if stored["version"] is not None and (stored["version"], stored["digest"]) >= mine:
            return SyncResult(current=False)
        if (
            stored["pending_version"] is not None
            and (stored["pending_version"], stored["pending_digest"]) > mine
        ):
            return SyncResult(current=False)
    return RejectedError(
        f"{shorten_id(document_id)} v{fence.version} has no manifest: send the document again",
        reason="no_manifest",
    )


async def insert_vectors(
    connection: Connection,
    tenant_id: TenantId,
    generation_id: GenerationId,
    vectors: Mapping[PassageId, NDArray[np.float32]],
) -> None:
    """Insert vectors, sorted by passage number; existing vectors stay unchanged."""
    ids = sorted(vectors)
    await connection.execute(
        sql("insert_vectors", generation_id), tenant_id, ids, [HalfVector(vectors[i]) for i in ids]
    )


async def apply_versions(
    connection: Connection,
    tenant_id: TenantId,
    manifests: Sequence[tuple[Draft, Sequence[ManifestEntry]]],
    generation_id: GenerationId | None,
    fields: FieldSettings,
    vectors: Mapping[PassageId, NDArray[np.float32]] | None = None,
    model: ModelPrice | None = None,
) -> list[SyncResult]:
    """Publish versions unless newer ones are visible.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: owner of the documents.
        manifests: versions of different documents; if there are several, their rows are locked.
        generation_id: active generation; None: no model was used yet.
        fields: settings of the field index.
        vectors: to store in the same transaction.
        model: that embeds, for the ledger of costs; None: costs are not recorded.

    Returns:
        The results in the same order.
    """
    fenced = await _apply_fence(connection, tenant_id, manifests, generation_id, fields)
    numbers = {document_id: row["doc_id"] for document_id, row in fenced.items()}
    lost = [_version_key(draft) for draft, _ in manifests if draft.document_id not in numbers]
    if lost:
        await connection.execute(sql("discard_manifests"), tenant_id, *version_columns(lost))
    won = [draft for draft, _ in manifests if draft.document_id in numbers]
    shown = {
        numbers[draft.document_id]: entries
        for draft, entries in manifests
        if draft.document_id in numbers and not draft.keep
    }
    old = await _read_chunk_rows(connection, tenant_id, list(shown)) if shown else {}
    swaps = await _write_chunk_diffs(connection, tenant_id, old, shown) if shown else {}
    changed = [
        fields_of_version(draft, entries, fenced[draft.document_id], old, fields)
        for draft, entries in manifests
        if draft.document_id in numbers and not draft.keep
    ]
    await write_fields(connection, tenant_id, changed, fields)
    if vectors and generation_id is not None:
        await insert_vectors(connection, tenant_id, generation_id, vectors)
    bills = {
        numbers[draft.document_id]: _bill(
            draft, entries, len(swaps[numbers[draft.document_id]].delete), vectors or {}, model
        )
        for draft, entries in manifests
        if draft.document_id in numbers and not draft.keep
    }
    if won:
        had = [
            (fenced[draft.document_id]["collection"], fenced[draft.document_id]["source"])
            for draft in won
        ]
        told = [
            notification_of_version(draft.outcome, draft.attributes, before, keep=draft.keep)
            for draft, before in zip(won, had, strict=True)
        ]
        await connection.execute(
            sql("end_syncs"),
            tenant_id,
            *version_columns(map(_version_key, won)),
            [draft.attributes.collection for draft in won],
            [sync_ended_payload(tenant_id, draft.document_id) for draft in won],
            [kind for kind, _ in told],
            [data for _, data in told],
            [collection for collection, _ in had],
            [_notified_bill(draft, bills.get(numbers[draft.document_id])) for draft in won],
        )
    await _save_bills(connection, tenant_id, bills)
    # the configured model may have changed since the embed stage processed the version
    if generation_id is not None and any(shown.values()):
        await connection.execute(
            sql("doubt_generation", generation_id),
            tenant_id,
            [number for number, entries in shown.items() if entries],
        )
    if model is not None:
        sources = {numbers[draft.document_id]: draft.attributes.source for draft in won}
        await count_version_costs(
            connection,
            tenant_id,
            model,
            [
                VersionCost(
                    sources[number],
                    bill.embedded if vectors else 0,  # others were charged when they were stored
                    bill.tokens if vectors else 0,
                    bill.reused,
                    bill.saved_tokens,
                )
                for number, bill in bills.items()
            ],
        )
    return [_result(draft, entries, numbers, swaps, bills) for draft, entries in manifests]


def _bill(
    draft: Draft,
    entries: Sequence[ManifestEntry],
    deleted: int,
    vectors: Mapping[PassageId, NDArray[np.float32]],
    model: ModelPrice | None,
) -> Bill:
    """Return the bill of a version.

    Args:
        draft: the version.
        entries: of its manifest.
        deleted: number of deleted chunks of the previous version.
        vectors: that are stored with the version; none of them was charged.
        model: price of the model; None: unknown.
    """
    lengths = {entry.passage_id: entry.length for entry in entries}
    embedded = draft.embedded or EmbeddedPassages()
    if vectors:
        estimated = estimate_total(lengths.get(passage_id, 0) for passage_id in vectors)
        embedded = EmbeddedPassages(len(vectors), estimated, estimated)
    return Bill(
        embedded.texts,
        max(0, len(lengths) - embedded.texts),
        deleted,
        embedded.tokens,
        max(0, estimate_total(lengths.values()) - embedded.estimated),
        None if model is None else model.cost(embedded.tokens),
    )


def _notified_bill(draft: Draft, bill: Bill | None) -> dict[str, Any] | None:
    return None if bill is None or draft.outcome == "deleted" else bill.as_object()


async def _save_bills(
    connection: Connection, tenant_id: TenantId, bills: Mapping[int, Bill]
) -> None:
    """Store the bills of versions, by document number, for sync reports."""
    if bills:
        await connection.execute(
            sql("note_work"),
            tenant_id,
            list(bills),
            [
                {
                    "embedded": bill.embedded,
                    "reused": bill.reused,
                    "deleted": bill.deleted,
                    "tokens": bill.tokens,
                }
                for bill in bills.values()
            ],
            [bill.cost for bill in bills.values()],
        )


def _version_key(draft: Draft) -> VersionKey:
    return draft.document_id, draft.fence


def _result(
    draft: Draft,
    entries: Sequence[ManifestEntry],
    numbers: dict[DocumentId, int],
    swaps: dict[int, ChunkDiff],
    bills: Mapping[int, Bill],
) -> SyncResult:
    number = numbers.get(draft.document_id)
    if number is None:
        return SyncResult(current=False)
    if draft.keep:
        return SyncResult(current=True)
    plan = swaps[number]
    return SyncResult(
        True,
        len(entries),
        len(plan.insert),
        len(plan.delete),
        len(plan.update),
        bills.get(number),
    )


async def _apply_fence(
    connection: Connection,
    tenant_id: TenantId,
    manifests: Sequence[tuple[Draft, Sequence[ManifestEntry]]],
    generation_id: GenerationId | None,
    fields: FieldSettings,
) -> dict[DocumentId, Any]:
    """Return the documents whose version became visible: their numbers and previous state."""
    kept = [draft for draft, _ in manifests if draft.keep]
    shown = [(draft, entries) for draft, entries in manifests if not draft.keep]
    rows = []
    if kept:
        rows += await connection.fetch(
            sql("fence_keeping_chunks"),
            tenant_id,
            *version_columns(map(_version_key, kept)),
            [draft.outcome for draft in kept],
            [draft.error for draft in kept],
            acl_column(draft.attributes for draft in kept),
        )
    if shown:
        drafts = [draft for draft, _ in shown]
        of = [draft.attributes for draft in drafts]
        rows += await connection.fetch(
            sql("fence_documents"),
            tenant_id,
            *version_columns(map(_version_key, drafts)),
            [draft.outcome for draft in drafts],
            [a.collection for a in of],
            [a.source for a in of],
            [a.title for a in of],
            [a.uri for a in of],
            [a.mime_type for a in of],
            [dict(a.metadata) for a in of],
            [a.changed_at for a in of],
            [draft.cut for draft in drafts],
            [len(entries) for _, entries in shown],
            [draft.error for draft in drafts],
            generation_id,
            acl_column(of),
            fields.cut,
        )
    return {DocumentId(row["document_id"]): row for row in rows}


async def _read_chunk_rows(
    connection: Connection, tenant_id: TenantId, numbers: list[int]
) -> dict[int, list[ChunkRow]]:
    """Return the rows of documents, by their numbers, in order."""
    found: dict[int, list[ChunkRow]] = {number: [] for number in numbers}
    for number, position, passage, gap, length, heading in await connection.fetch(
        sql("read_chunks"), tenant_id, numbers
    ):
        found[number].append(
            ChunkRow(position, ManifestEntry(PassageId(passage), gap, length, tuple(heading)))
        )
    return found


async def _write_chunk_diffs(
    connection: Connection,
    tenant_id: TenantId,
    old: Mapping[int, Sequence[ChunkRow]],
    shown: dict[int, Sequence[ManifestEntry]],
) -> dict[int, ChunkDiff]:
    """Change the chunk rows of documents, by their numbers, to match their manifests."""
    swaps = {number: diff_chunks(old[number], entries) for number, entries in shown.items()}
    gone = [(number, position) for number, plan in swaps.items() for position in plan.delete]
    new = [
        (number, row, row.entry.passage_id) for number, plan in swaps.items() for row in plan.insert
    ]
    moved = [(number, row, None) for number, plan in swaps.items() for row in plan.update]
    if gone or new or moved:
        await connection.execute(
            sql("change_chunks"),
            tenant_id,
            [number for number, _ in gone],
            [position for _, position in gone],
            *_chunk_columns([*new, *moved]),
        )
    return swaps


def _chunk_columns(rows: Sequence[tuple[int, ChunkRow, PassageId | None]]) -> tuple[list[Any], ...]:
    """Return rows as columns for `change_chunks`; `heading` is an index into the distinct heading
    paths.
    """
    places: dict[tuple[str, ...], int] = {}
    of = [places.setdefault(row.entry.heading, len(places) + 1) for _, row, _ in rows]
    entries = [row.entry for _, row, _ in rows]
    return (
        [number for number, _, _ in rows],
        [row.position for _, row, _ in rows],
        [passage for _, _, passage in rows],
        [entry.gap for entry in entries],
        [entry.length for entry in entries],
        of,
        [list(path) for path in places],
    )
