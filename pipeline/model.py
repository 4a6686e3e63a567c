"""Types of the domain: ids, chunks, manifest entries, versions and documents.

All are immutable, and none does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, NewType

TenantId = NewType("TenantId", str)
DocumentId = NewType("DocumentId", str)
PassageId = NewType("PassageId", int)
GenerationId = NewType("GenerationId", int)

DEFAULT_TENANT = TenantId("default")
DEFAULT_COLLECTION = "default"
DEFAULT_MAX_DOCUMENT_BYTES = 67_108_864
"""Default of LIVEDEX_MAX_DOCUMENT_BYTES."""
MAX_METADATA_BYTES = 65_536
"""Maximum size of a document's metadata as JSON."""
NO_NUL_PATTERN = r"^[^\x00]*$"
"""A pattern for names: PostgreSQL cannot store NUL."""

DocumentState = Literal[
    "pending",
    "synced",
    "empty",
    "no_text",
    "unsupported",
    "encrypted",
    "corrupt",
    "too_large",
    "timeout",
    "unreadable",
    "dead",
]
TextFormat = Literal[
    "markdown",
    "rst",
    "org",
    "asciidoc",
    "latex",
    "textile",
    "mediawiki",
    "man",
    "plain",
    "lines",
    "records",
    "rows",
]
"""Format of a text: a markup language; or prose (`plain`), code and data (`lines`), a log
(`records`), a table with separators (`rows`).
"""

_MAX_SHOWN = 200


def shorten_id(document_id: str) -> str:
    """Return an id for log lines and errors, shortened in the middle above 200 characters.

    Args:
        document_id: of any length.
    """
    return (
        document_id
        if len(document_id) <= _MAX_SHOWN
        else f"{document_id[: _MAX_SHOWN - 51]}…{document_id[-50:]}"
    )


class Chunk(NamedTuple):
    """A part of a text: `text[start:end]`, in code points, with its headings.

    Attributes:
        start: first code point, >= 0.
        end: one past the last code point, > start.
        heading: the titles from the outermost heading down to the one the chunk stands under.
    """

    start: int
    end: int
    heading: tuple[str, ...] = ()


class ManifestEntry(NamedTuple):
    """One entry of a manifest: a passage and its position relative to the previous entry.

    Attributes:
        passage_id: the passage shown.
        gap: code points from the end of the previous entry to this start; negative if they
            overlap.
        length: code points of the passage, > 0.
        heading: the heading path.
    """

    passage_id: PassageId
    gap: int
    length: int
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fence:
    """Orders the events of a document: the greater tuple wins.

    Attributes:
        version: grows with each change at the source, 0 <= version < 2**63.
        digest: 33 bytes: one for a delete, 32 of the content's SHA-256. At equal versions a delete
            beats content, and then the greater hash wins.
    """

    version: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Arrival:
    """Time and position at which a broker took a record: orders a change and a delete without a
    version, independent of any time that a sender gives.

    Attributes:
        at: aware; by the broker's clock, if it has one.
        partition: on Kafka; its records are in the order of their offsets.
        offset: on Kafka.
    """

    at: datetime
    partition: int | None = None
    offset: int | None = None

    @property
    def place(self) -> list[int] | None:
        """Return partition and offset for SQL statements."""
        return (
            None if self.partition is None or self.offset is None else [self.partition, self.offset]
        )


@dataclass(frozen=True, slots=True)
class Attributes:
    """Metadata of a document.

    Attributes:
        collection: name of its collection.
        source: name of its source.
        title: of the document.
        uri: for readers.
        mime_type: of the content.
        metadata: JSON object; no NUL, no lone surrogates.
        changed_at: time of the change at the source, aware.
        acl: sorted principals that may read it, without duplicates; None: the whole tenant; see
            `livedex.pipeline.acl`.
    """

    collection: str = DEFAULT_COLLECTION
    source: str = ""
    title: str | None = None
    uri: str | None = None
    mime_type: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    changed_at: datetime | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """The tenant and principals of a read.

    Attributes:
        tenant_id: owner of the documents.
        principals: restrict the read to documents without access control list, and those that one
            of these may read. None: all documents.
    """

    tenant_id: TenantId
    principals: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class CacheValidator:
    """Validator of an unchanged resource: an ETag or a date.

    Attributes:
        place: digest of the final URL after redirects: a validator holds for one URL only.
        etag: as sent by the server.
        last_modified: as sent by the server.
    """

    place: bytes
    etag: str | None = None
    last_modified: str | None = None
