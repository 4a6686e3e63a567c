"""Inspection of the index row by row, and repair of damaged rows.

Stored hashes, lengths and counts are not trusted: all are computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from livedex.pipeline.model import Attributes, DocumentId, GenerationId, PassageId, TenantId
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.keyword_analyzer import ANALYZER_VERSION, analyze_text
from livedex.pipeline.store.postgres.statements import sql

PAGE_DOCUMENTS = 50
_BATCH_PASSAGES = 1000
_NORM_TOLERANCE = 0.01  # vectors have length 1 and are stored as half-precision floats


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as it is stored.

    Attributes:
        passage_id: number of its passage.
        gap: code points from the end of the previous chunk.
        length: in code points.
        heading: the heading path.
        hash: of its passage; None: the passage is missing.
        content: of its passage; None: the passage is missing.
    """

    passage_id: PassageId
    gap: int
    length: int
    heading: tuple[str, ...]
    hash: bytes | None
    content: str | None

    @property
    def is_damaged(self) -> bool:
        """Return whether its passage is missing or does not match its hash."""
        return self.content is None or hashlib.sha256(self.content.encode()).digest() != self.hash


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document as it is stored, with its chunks in order.

    Attributes:
        document_id: of the document.
        state: of the visible version; None: none was ever visible.
        under_way: whether a version is pending.
        is_dead: whether its newest version is a dead letter.
        is_visible: whether readers find it; False for a tombstone.
        attributes: its metadata.
        chunk_count: the stored number of chunks.
        chunks: in order.
    """

    document_id: DocumentId
    state: str | None
    under_way: bool
    is_dead: bool
    is_visible: bool
    attributes: Attributes
    chunk_count: int
    chunks: tuple[StoredChunk, ...] = field(default=(), repr=False)


class IndexInspection:
    """Inspects and repairs the index of one tenant.

    Every method may raise `OutageError` or `RetryableError`.

    Args:
        database: connected as the application's role.
        tenant_id: owner of the documents.
        text_search_config: PostgreSQL text search configuration of the keyword index.
    """

    def __init__(self, database: Database, tenant_id: TenantId, text_search_config: str) -> None:
        self._database = database
        self._config = text_search_config
        self.tenant_id = tenant_id

    async def documents(self) -> AsyncIterator[list[StoredDocument]]:
        """Yield pages of all documents including tombstones, sorted by id; each document is read
        from one snapshot.
        """
        after = ""
        while True:
            async with self._database.tenant(self.tenant_id, "inspect documents") as connection:
                rows = await connection.fetch(
                    sql("shown_documents"), self.tenant_id, after, PAGE_DOCUMENTS
                )
            if not rows:
                return
            yield [
                _document(list(group))
                for _, group in groupby(rows, key=lambda row: row["document_id"])
            ]
            after = rows[-1]["document_id"]

    async def find_wrong_keyword_entries(self, contents: Mapping[PassageId, str]) -> set[PassageId]:
        """Return the passages whose length or keyword entry does not match their content.

        Args:
            contents: texts by passage.
        """
        faulty: set[PassageId] = set()
        for ids in _batches(list(contents)):
            words, exact, spellings = self._keyword_columns([contents[i] for i in ids])
            async with self._database.tenant(
                self.tenant_id, "inspect the keyword index"
            ) as connection:
                rows = await connection.fetch(
                    sql("faulty_words"),
                    self.tenant_id,
                    ids,
                    words,
                    exact,
                    self._config,
                    spellings,
                    ANALYZER_VERSION,
                )
            faulty |= {PassageId(row[0]) for row in rows}
        return faulty

    async def vectors(
        self, passages: Sequence[PassageId], generation: GenerationId, dimensions: int
    ) -> dict[PassageId, bool]:
        """Return for each passage with a vector whether the vector is valid: it has the right
        dimensions, finite values and length 1.

        Args:
            passages: their numbers.
            generation: of the vectors.
            dimensions: of the generation.
        """
        found: dict[PassageId, bool] = {}
        for ids in _batches(passages):
            async with self._database.tenant(self.tenant_id, "inspect vectors") as connection:
                rows = await connection.fetch(sql("vector_shapes", generation), self.tenant_id, ids)
            found |= {
                PassageId(row["passage_id"]): row["dimensions"] == dimensions
                and abs(row["norm"] - 1) <= _NORM_TOLERANCE
                for row in rows
            }
        return found

    async def find_orphan_chunks(self) -> list[tuple[int, int]]:
        """Return the document numbers of chunks without a document, with the number of chunks."""
        async with self._database.tenant(self.tenant_id, "look for orphans") as connection:
            return [
                (row["doc_id"], row["chunks"])
                for row in await connection.fetch(sql("orphan_chunks"), self.tenant_id)
            ]

    async def rewrite_passages(self, contents: Sequence[str]) -> None:
        """Rewrite the passages with the hashes of these texts, and their keyword entries."""
        by_hash = {hashlib.sha256(content.encode()).digest(): content for content in contents}
        for hashes in _batches(sorted(by_hash)):
            texts = [by_hash[hash_] for hash_ in hashes]
            words, exact, spellings = self._keyword_columns(texts)
            async with self._database.tenant(
                self.tenant_id, f"restore {len(texts)} passages"
            ) as connection:
                await connection.execute(
                    sql("restore_passages"),
                    self.tenant_id,
                    hashes,
                    texts,
                    words,
                    exact,
                    self._config,
                    spellings,
                    ANALYZER_VERSION,
                )

    async def contents(self, passages: Sequence[PassageId]) -> list[tuple[PassageId, str]]:
        """Return the texts of passages, sorted by number; missing ones are left out."""
        async with self._database.tenant(
            self.tenant_id, f"read {len(passages)} passages"
        ) as connection:
            rows = await connection.fetch(sql("passage_contents"), self.tenant_id, list(passages))
        return [(PassageId(row["passage_id"]), row["content"]) for row in rows]

    async def delete_vectors(self, passages: Sequence[PassageId], generation: GenerationId) -> None:
        """Delete invalid vectors of passages."""
        await self._execute("delete vectors", sql("delete_vectors", generation), list(passages))

    async def delete_orphan_chunks(self) -> None:
        """Delete chunks that belong to no document."""
        await self._execute("delete orphans", sql("delete_orphan_chunks"))

    async def recount_chunks(self, documents: Sequence[DocumentId]) -> None:
        """Correct the stored number of chunks of documents."""
        await self._execute("count chunks", sql("count_chunks_again"), list(documents))

    async def reset_files(self, source: str, documents: Sequence[DocumentId]) -> None:
        """Delete the publication records of documents' files, so that the next scan publishes them
        again.
        """
        await self._execute("forget files", sql("forget_files"), source, list(documents))

    def _keyword_columns(self, contents: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        found = [analyze_text(content, self._config) for content in contents]
        return (
            [each.words for each in found],
            ["\x1f".join(each.exact) for each in found],
            [each.spellings for each in found],
        )

    async def _execute(self, what: str, statement: str, *arguments: Any) -> None:
        async with self._database.tenant(self.tenant_id, what) as connection:
            await connection.execute(statement, self.tenant_id, *arguments)


def _document(rows: Sequence[Any]) -> StoredDocument:
    d = rows[0]
    attributes = Attributes(
        d["collection"],
        d["source"],
        d["title"],
        d["uri"],
        d["mime_type"],
        d["metadata"],
        acl=_acl(d["acl"]),
    )
    return StoredDocument(
        DocumentId(d["document_id"]),
        d["state"],
        d["under_way"],
        d["is_dead"],
        d["is_dead"] or d["is_coming"] or (d["state"] or "deleted") != "deleted",
        attributes,
        d["chunk_count"],
        tuple(_chunk(row) for row in rows if row["position"] is not None),
    )


def _acl(value: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _chunk(row: Any) -> StoredChunk:
    return StoredChunk(
        PassageId(row["passage_id"]),
        row["gap"],
        row["length"],
        tuple(row["heading"]),
        row["hash"],
        row["content"],
    )


def _batches(items: Sequence[Any]) -> list[list[Any]]:
    return [list(items[i : i + _BATCH_PASSAGES]) for i in range(0, len(items), _BATCH_PASSAGES)]


async def hashes_with_vector(
    connection: Connection, tenant_id: TenantId, generation: GenerationId, hashes: Sequence[bytes]
) -> set[bytes]:
    """Return the hashes whose passage has a vector and need not be embedded."""
    found: set[bytes] = set()
    for batch in _batches(hashes):
        found |= {
            row[0]
            for row in await connection.fetch(
                sql("hashes_with_vector", generation), tenant_id, batch
            )
        }
    return found
