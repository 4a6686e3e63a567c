"""Queries for visible documents, their chunks, and collections.

Invariant: each result comes from one statement, so a reader never sees parts of two versions.
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
    """A document as the API shows it.

    Attributes:
        document_id: of the document.
        state: of the newest version.
        version: the visible version; None: none is visible.
        pending_version: a newer version that is being processed.
        chunk_count: number of visible chunks.
        collection: name of its collection.
        source: name of its source.
        title: of the visible version.
        uri: for readers.
        mime_type: of the content.
        metadata: JSON object.
        error: what to do, if the state is one without text, or `dead`.
        changed_at: time of the change at its source, aware, never after `synced_at`.
        synced_at: time at which the version became visible, aware.
        acl: principals that may read it; None: the whole tenant. A reader with principals sees
            only its own ones.
        source_state: `orphaned` if no watcher reports its source any more.
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
        chunk_index: its index among the document's chunks, from 0.
        content: the text.
        start: first code point, >= 0.
        end: one past the last code point.
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
        name: of the collection.
        documents: number of its documents that the reader may see.
        created_at: None for the default collection before its first document.
    """

    name: str
    documents: int
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The outcome of an accepted change. Attributes are None if unknown, or without meaning in the
    state.

    Attributes:
        state: of the change.
        attempts: number of attempts of a dead change, including replays.
        error: what to do about a dead change, or about a state without text.
        chunks: number of chunks of the visible version.
        embedded: number of distinct passages that were not stored before.
        reused: number of distinct passages that were already stored.
        deleted: number of chunks of the previous version that were deleted.
        tokens: of the embedded passages, as counted by the provider, or estimated.
        cost: of these tokens, as the API shows it; None: no price is known.
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
    """Reads the documents of a tenant; documents that the reader may not see count as absent.

    Every method may raise OutageError and RetryableError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, reader: Reader, document_id: DocumentId) -> DocumentView | None:
        """Return a document; None: not found or deleted."""
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
        """Return a page of documents, sorted by id. Over all pages, each document that exists
        throughout appears exactly once.

        Args:
            reader: tenant and principals.
            collection: only its documents; None: all.
            source: only its documents; None: all.
            state: only documents in this state; None: all.
            prefix: only documents whose id begins with it.
            limit: maximum number of documents, >= 1.
            cursor: from the previous page; None: the first page.

        Returns:
            The documents, and the cursor of the next page; None: this is the last page.

        Raises:
            RejectedError: the cursor is invalid.
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
        """Return the visible chunks of a document; None: not found."""
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
        """Return all collections by name with the number of readable documents, always including
        the default collection.
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
        """Return a collection; None: not found."""
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
        """Return the state of an accepted version; `pending` if nothing is stored about it yet."""
        async with self._database.read_transaction(reader, "read progress") as connection:
            row = await connection.fetchrow(
                sql("read_progress"), reader.tenant_id, document_id, principals_parameter(reader)
            )
        return _sync_state(version, row)

    async def sync_report(
        self, reader: Reader, document_id: DocumentId, version: int
    ) -> SyncReport:
        """Return the state of an accepted version with its counts."""
        async with self._database.read_transaction(reader, "read a sync report") as connection:
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
        changed_at = None  # outside the driver's range; earlier releases stored such times
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
    """Return the principals in a document's ACL that its reader may know."""
    return (
        acl
        if acl is None or reader.principals is None
        else [principal for principal in acl if principal in reader.principals]
    )


def _chunks_with_offsets(rows: Sequence[asyncpg.Record]) -> list[ChunkView]:
    """Return chunks with absolute offsets; the rows store them relative to the previous chunk."""
    placed, end = [], 0
    for index, row in enumerate(rows):
        start = end + row["gap"]
        end = start + row["length"]
        placed.append(ChunkView(index, row["content"], start, end, row["heading"]))
    return placed
