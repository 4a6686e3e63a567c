"""Index the fields of documents for keyword search: title, file name and heading paths.

One row holds the title and the file name of a document, and one the heading path of each of its
sections. The first sentence replaces a missing title. A row changes only with its title, heading or
first sentence; passages and vectors stay unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

from livedex.pipeline.model import DocumentId, ManifestEntry, TenantId
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.documents.chunk_diff import ChunkRow
from livedex.pipeline.store.drafts import Draft
from livedex.pipeline.store.keyword_analyzer import ANALYZER_VERSION, analyze_text
from livedex.pipeline.store.postgres.statements import sql

FIELDS_VERSION = 1  # of the rows' content; a new one indexes all documents again
WHOLE_DOCUMENT = UUID(int=0)  # the row of title and file name
MAX_FIELD_CHARACTERS = 2_000  # indexed of a title or a heading path
_BATCH_DOCUMENTS = 200
_MAX_LEAD_CHARACTERS = 200
_LEAD = re.compile(r"\s*(.+?)(?:[.!?:]\s|\n\s*\n|\Z)", re.DOTALL)
_PATH_SEPARATOR = "\x1f"  # joins headings before a path is hashed; the SQL statements use it, too

HeadingPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldSettings:
    """How fields are indexed.

    Attributes:
        text_search_config: PostgreSQL text search configuration of the keyword index.
        metadata_keys: metadata keys whose scalar values are indexed with the title.
    """

    text_search_config: str
    metadata_keys: tuple[str, ...] = ()

    @property
    def cut(self) -> str:
        """Return an id of these settings; documents indexed with other settings are outdated."""
        version = f"{FIELDS_VERSION}.{ANALYZER_VERSION}"
        return "/".join([version, self.text_search_config, *self.metadata_keys])


@dataclass(frozen=True, slots=True)
class DocumentFields:
    """The input for the field rows of one visible document.

    Attributes:
        doc_id: its number.
        document_id: its id, whose last part is the file name.
        title: None: the first sentence replaces it.
        metadata: JSON object.
        first_passage: of its first chunk; None: it has none.
        sections: heading paths of its chunks.
        sections_before: heading paths of the stored rows; None: all rows are rewritten.
        is_new: whether it cannot have rows yet.
    """

    doc_id: int
    document_id: DocumentId
    title: str | None
    metadata: Mapping[str, Any]
    first_passage: int | None
    sections: frozenset[HeadingPath]
    sections_before: frozenset[HeadingPath] | None = None
    is_new: bool = False


class _Row(NamedTuple):
    doc_id: int
    section: UUID
    words: str  # for PostgreSQL's parser
    exact: Sequence[str]  # tokens, each once


def section_id(path: Iterable[str]) -> UUID:
    """Return the id of a section, derived from its heading path."""
    joined = _PATH_SEPARATOR.join(path).encode("utf-8", "surrogatepass")
    return UUID(bytes=hashlib.md5(joined, usedforsecurity=False).digest())


def fields_of_version(
    draft: Draft,
    entries: Sequence[ManifestEntry],
    before: Any,
    old: Mapping[int, Sequence[ChunkRow]],
    settings: FieldSettings,
) -> DocumentFields:
    """Describe the fields of a version that becomes visible.

    Args:
        draft: the version.
        entries: its chunks in order; none for a deleted one.
        before: the row of its document, as the fence returned it.
        old: the chunks that were visible, by number of the document.
        settings: how fields are indexed.
    """
    number, now = before["doc_id"], draft.attributes
    first = entries[0].passage_id if entries else None
    first_before = old[number][0].entry.passage_id if old[number] else None
    are_current = (
        before["has_fields"]
        and first is not None
        and (bool(now.title) or first == first_before)
        and not settings.metadata_keys
    )
    return DocumentFields(
        number,
        draft.document_id,
        now.title,
        now.metadata,
        first,
        frozenset(entry.heading for entry in entries),
        frozenset(row.entry.heading for row in old[number]) if are_current else None,
        is_new=before["lacks_fields"],
    )


async def write_fields(
    connection: Connection,
    tenant_id: TenantId,
    documents: Sequence[DocumentFields],
    settings: FieldSettings,
) -> None:
    """Insert, update and delete the field rows of documents.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: owner of the documents.
        documents: whose rows are locked.
        settings: of the index.
    """
    leads = await _read_leads(connection, tenant_id, documents)
    rows: list[_Row] = []
    whole: list[int] = []
    gone: list[tuple[int, UUID]] = []
    for document in documents:
        before = document.sections_before
        if before is None:
            if not document.is_new:
                whole.append(document.doc_id)
            if document.sections:
                title = document.title or leads.get(document.first_passage, "")
                rows.append(_document_row(document, title, settings))
        else:
            gone += [(document.doc_id, section_id(p)) for p in before - document.sections]
        rows += _section_rows(document, document.sections - (before or frozenset()), settings)
    if whole or gone:
        await connection.execute(
            sql("remove_fields"),
            tenant_id,
            whole,
            [doc_id for doc_id, _ in gone],
            [section for _, section in gone],
        )
    if rows:
        await connection.execute(
            sql("write_fields"),
            tenant_id,
            [row.doc_id for row in rows],
            [row.section for row in rows],
            [row.words for row in rows],
            [_PATH_SEPARATOR.join(row.exact) for row in rows],
            settings.text_search_config,
        )


async def index_outdated_fields(
    database: Database, tenant_id: TenantId, settings: FieldSettings
) -> int:
    """Index the fields of documents that lack them, or were indexed with other settings.

    Embeds nothing.

    Args:
        database: connected as the application's role.
        tenant_id: owner of the documents.
        settings: of the index.

    Returns:
        The number of indexed documents.
    """
    total = 0
    while True:
        async with database.tenant(tenant_id, "index fields") as connection:
            rows = await connection.fetch(
                sql("outdated_fields"), tenant_id, settings.cut, _BATCH_DOCUMENTS
            )
            if not rows:
                return total
            documents = [
                DocumentFields(
                    row["doc_id"],
                    DocumentId(row["document_id"]),
                    row["title"],
                    row["metadata"],
                    row["first_passage"],
                    frozenset(tuple(path) for path in row["sections"]),
                )
                for row in rows
            ]
            await write_fields(connection, tenant_id, documents, settings)
            await connection.execute(
                sql("note_fields"), tenant_id, [d.doc_id for d in documents], settings.cut
            )
        total += len(rows)


async def _read_leads(
    connection: Connection, tenant_id: TenantId, documents: Sequence[DocumentFields]
) -> dict[int | None, str]:
    """Return the first sentences of documents without a title, by their first passage."""
    wanted = [
        document.first_passage
        for document in documents
        if not document.title and document.first_passage and document.sections_before is None
    ]
    if not wanted:
        return {}
    rows = await connection.fetch(sql("beginnings"), tenant_id, wanted, 2 * _MAX_LEAD_CHARACTERS)
    return {row["passage_id"]: first_sentence(row["content"]) for row in rows}


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, cut off after 200 characters."""
    found = _LEAD.match(text)
    return found[1][:_MAX_LEAD_CHARACTERS] if found else ""


def _document_row(document: DocumentFields, title: str, settings: FieldSettings) -> _Row:
    name = document.document_id.rstrip("/").rpartition("/")[2]
    values = [document.metadata.get(key) for key in settings.metadata_keys]
    texts = [
        title[:MAX_FIELD_CHARACTERS],
        PurePosixPath(name).stem if name else "",
        *(str(v)[:MAX_FIELD_CHARACTERS] for v in values if isinstance(v, str | int | float)),
    ]
    found = _field_row(document, WHOLE_DOCUMENT, "\n".join(texts), settings)
    named = analyze_text(name, settings.text_search_config).exact
    return found._replace(exact=list(dict.fromkeys([*found.exact, *named])))


def _field_row(document: DocumentFields, section: UUID, text: str, settings: FieldSettings) -> _Row:
    """Return the row of a text; other spellings of its words are words like them."""
    found = analyze_text(text, settings.text_search_config)
    words = f"{found.words} {found.spellings}" if found.spellings else found.words
    return _Row(document.doc_id, section, words, found.exact)


def _section_rows(
    document: DocumentFields, paths: Iterable[HeadingPath], settings: FieldSettings
) -> Iterable[_Row]:
    for path in paths:
        # the document's row already contains the title
        shown = path[1:] if path and path[0] == document.title else path
        if text := "\n".join(shown)[:MAX_FIELD_CHARACTERS].strip():
            yield _field_row(document, section_id(path), text, settings)
