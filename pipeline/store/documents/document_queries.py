"""Reading documents, their chunks and collections, as readers are shown them.

Invariant: every answer comes from one statement, so a reader never sees half of a version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

import asyncpg

from livedex.pipeline.costs.money import exact_amount
from livedex.pipeline.model import DEFAULT_COLLECTION, DocumentId, DocumentState, Reader
from livedex.pipeline.store.database import Database, principals_parameter
from livedex.pipeline.store.page_cursor import decode_cursor, encode_cursor, is_storable
from livedex.pipeline.store.postgres.statements import sql

SyncState = Literal["pending", "synced", "superseded", "dead"]


@dataclass(frozen=True, slots=True)
class DocumentView:
    """A document as the interface shows it.

    Attributes:
        version: of what is visible; None where nothing ever was, or is no more.
        pending_version: a newer version that is under way.
        chunk_count: visible chunks.
        error: what to do, where the state is one without text, or `dead`.
        changed_at: when it changed at its source, never after `synced_at`.
        source_state: `orphaned` where no setting names its source any more.
        acl: the principals that may read it, None: everybody of the tenant. Whoever reads on
            somebody's behalf is told only of those.
    """

    document_id: DocumentId
    state: DocumentState
    version: int | None
    pending_version: int | None
    chunk_count: int
    collection: str
    source: str
    title: str | None
    uri: str | None
    mime_type: str | None
    metadata: dict[str, Any]
    error: str | None
    changed_at: datetime | None
    synced_at: datetime | None
    acl: Sequence[str] | None = None
    source_state: Literal["orphaned"] | None = None


@dataclass(frozen=True, slots=True)
class ChunkView:
    """A visible chunk: `text[start:end]` of the document's text, in code points.

    Attributes:
        chunk_index: its place among the document's chunks, from 0.
        heading: the titles from the outermost heading down.
    """

    chunk_index: int
    content: str
    start: int
    end: int
    heading: Sequence[str]


@dataclass(frozen=True, slots=True)
class ChunksView:
    """The chunks of one document version in order; `version` is None if none is visible."""

    document_id: DocumentId
    version: int | None
    chunks: Sequence[ChunkView]


@dataclass(frozen=True, slots=True)
class CollectionView:
    """A collection.

    Attributes:
        documents: in it now.
        created_at: None for the default collection before its first document.
    """

    name: str
    documents: int
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What became of an accepted change; None where it is not known, or means nothing in this
    state.

    Attributes:
        attempts: of one that is dead, over its replays.
        error: what to do about a dead one, or about a state without text.
        chunks: of the version, which is visible.
        embedded, reused: distinct passages that were not known before, and that were.
        deleted: chunks of the version before that are no more.
        tokens: of the embedded passages, as the provider counted them, or estimated.
        cost: of these tokens, as the interface shows it; None where no price is known.
    """

    state: SyncState
    attempts: int | None = None
    error: str | None = None
    chunks: int | None = None
    embedded: int | None = None
    reused: int | None = None
    deleted: int | None = None
    tokens: int | None = None
    cost: Mapping[str, str] | None = None


class DocumentQueries:
    """What is known of a tenant's documents, as far as somebody may read them: others are as if
    they were not there.

    Every method may raise OutageError and RetryableError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, reader: Reader, document_id: DocumentId) -> DocumentView | None:
        """A document; None where there is none, or it was deleted."""
        if not is_storable(document_id):
            return None
        async with self._database.read_transaction(reader, "read a document") as connection:
            row = await connection.fetchrow(
                sql("read_document"), reader.tenant_id, document_id, principals_parameter(reader)
            )
        return _document(row, reader) if row is not None and row["state"] is not None else None

    async def page(
        self,
        reader: Reader,
        *,
        collection: str | None = None,
        source: str | None = None,
        state: str | None = None,
        prefix: str = "",
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[list[DocumentView], str | None]:
        """A page of documents in the order of their ids: what is there all the while is seen
        exactly once.

        Args:
            collection, source, state: only documents with these; None for all.
            prefix: only documents whose id begins with it.
            limit: documents at most, >= 1.
            cursor: from the page before; None for the first.

        Returns:
            The documents, and the cursor of the next page, None on the last.

        Raises:
            RejectedError: the cursor is none that a page gave.
        """
        above = "" if cursor is None else decode_cursor(cursor, 1)[0]
        if not all(
            is_storable(value) for value in (collection, source, state, prefix) if value is not None
        ):
            return [], None
        async with self._database.read_transaction(reader, "list documents") as connection:
            rows = await connection.fetch(
                sql("page_documents"),
                reader.tenant_id,
                above,
                collection,
                source,
                state,
                limit + 1,
                principals_parameter(reader),
                prefix,
            )
        documents = [_document(row, reader) for row in rows[:limit]]
        return documents, encode_cursor([documents[-1].document_id]) if len(rows) > limit else None

    async def chunks(self, reader: Reader, document_id: DocumentId) -> ChunksView | None:
        """The visible chunks of a document; None where there is no such document."""
        if not is_storable(document_id):
            return None
        async with self._database.read_transaction(reader, "read chunks") as connection:
            rows = await connection.fetch(
                sql("read_document_chunks"),
                reader.tenant_id,
                document_id,
                principals_parameter(reader),
            )
        if not rows or rows[0]["state"] is None:
            return None
        return ChunksView(
            document_id,
            _visible_version(rows[0]),
            _chunks_with_offsets(rows) if rows[0]["content"] is not None else [],
        )

    async def collections(self, reader: Reader) -> list[CollectionView]:
        """Every collection by name, with the number of its documents that may be read; the default
        one is always there.
        """
        async with self._database.read_transaction(reader, "list collections") as connection:
            rows = await connection.fetch(
                sql("read_collections"), reader.tenant_id, None, principals_parameter(reader)
            )
        found = [CollectionView(**row) for row in rows]
        if all(collection.name != DEFAULT_COLLECTION for collection in found):
            found.append(CollectionView(DEFAULT_COLLECTION, 0, None))
        return sorted(found, key=lambda collection: collection.name)

    async def collection(self, reader: Reader, name: str) -> CollectionView | None:
        """A collection; None where there is none."""
        if not is_storable(name):
            return None
        async with self._database.read_transaction(reader, "read a collection") as connection:
            row = await connection.fetchrow(
                sql("read_collections"), reader.tenant_id, name, principals_parameter(reader)
            )
        if row is not None:
            return CollectionView(**row)
        return CollectionView(name, 0, None) if name == DEFAULT_COLLECTION else None

    async def sync_state(self, reader: Reader, document_id: DocumentId, version: int) -> SyncState:
        """What became of an accepted version of a document; one of which nothing is known yet is
        pending.
        """
        async with self._database.read_transaction(reader, "read progress") as connection:
            row = await connection.fetchrow(
                sql("read_progress"), reader.tenant_id, document_id, principals_parameter(reader)
            )
        return _sync_state(version, row)

    async def sync_report(
        self, reader: Reader, document_id: DocumentId, version: int
    ) -> SyncReport:
        """What became of an accepted version of a document, and what it took."""
        async with self._database.read_transaction(reader, "read what a change took") as connection:
            row = await connection.fetchrow(
                sql("read_progress"), reader.tenant_id, document_id, principals_parameter(reader)
            )
        state = _sync_state(version, row)
        if state == "dead":
            return SyncReport(state, attempts=row["attempts"], error=row["dead_error"])
        if state == "synced":
            has_cost = row["work"] is not None and row["work_cost"] is not None
            return SyncReport(
                state,
                error=row["error"],
                chunks=row["chunk_count"],
                cost=exact_amount(row["work_cost"]) if has_cost else None,
                **(row["work"] or {}),
            )
        return SyncReport(state)


def _sync_state(version: int, row: Any) -> SyncState:
    if row is None:
        return "pending"
    return _compare_versions(
        version, visible=row["version"], dead=row["dead_version"], under_way=row["pending_version"]
    )


def _compare_versions(
    version: int, *, visible: int | None, dead: int | None, under_way: int | None
) -> SyncState:
    if visible == version:
        return "synced"
    if visible is not None and visible > version:
        return "superseded"
    if dead == version:
        return "dead"
    newest = max((other for other in (dead, under_way) if other is not None), default=version)
    return "superseded" if newest > version else "pending"


def _visible_version(row: asyncpg.Record) -> int | None:
    return row["version"] if row["synced_state"] not in (None, "deleted") else None


def _document(row: asyncpg.Record, reader: Reader) -> DocumentView:
    version = _visible_version(row)
    changed_at, synced_at = row["changed_at"], row["synced_at"] if version is not None else None
    if changed_at is not None and changed_at.tzinfo is None:
        changed_at = None  # beyond what the driver can tell: written by an earlier version
    if changed_at is not None and synced_at is not None:
        changed_at = min(changed_at, synced_at)  # a source's clock may be ahead of the database's
    return DocumentView(
        document_id=row["document_id"],
        state=cast(DocumentState, row["state"]),
        version=version,
        pending_version=row["pending_version"],
        chunk_count=row["chunk_count"],
        collection=row["collection"],
        source=row["source"],
        title=row["title"],
        uri=row["uri"],
        mime_type=row["mime_type"],
        metadata=row["metadata"],
        error=row["dead_error"] if row["state"] == "dead" else row["error"],
        changed_at=changed_at,
        synced_at=synced_at,
        acl=_visible_principals(row["acl"], reader),
        source_state="orphaned" if row["orphaned"] else None,
    )


def _visible_principals(acl: Sequence[str] | None, reader: Reader) -> Sequence[str] | None:
    """Who may read a document, as far as its reader is to know."""
    return (
        acl
        if acl is None or reader.principals is None
        else [principal for principal in acl if principal in reader.principals]
    )


def _chunks_with_offsets(rows: Sequence[asyncpg.Record]) -> list[ChunkView]:
    """Chunks with their places, which stand in the rows relative to the chunk before."""
    placed, end = [], 0
    for index, row in enumerate(rows):
        start = end + row["gap"]
        end = start + row["length"]
        placed.append(ChunkView(index, row["content"], start, end, row["heading"]))
    return placed
