"""The words of the design as types: ids, chunks, manifests, documents.

Everything here is frozen; nothing here does I/O.
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
NO_NUL_PATTERN = r"^[^\x00]*$"
"""A pattern for names: PostgreSQL keeps any text but one with NUL."""

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
"""How a text is read: a markup; or prose (`plain`), code and data (`lines`), a log (`records`), a
table with separators (`rows`).
"""

_MOST_SHOWN = 200


def shorten_id(document_id: str) -> str:
    """An id as log lines and errors name it: all of it, or its begin and its end around `…` where
    it has more than 200 characters.
    """
    return (
        document_id
        if len(document_id) <= _MOST_SHOWN
        else f"{document_id[: _MOST_SHOWN - 51]}…{document_id[-50:]}"
    )


class Chunk(NamedTuple):
    """A piece of a text: `text[start:end]`, in code points, under its headings.

    Attributes:
        start: first code point, >= 0.
        end: one past the last code point, > start.
        heading: the titles from the outermost heading down to the one the chunk stands under.
    """

    start: int
    end: int
    heading: tuple[str, ...] = ()


class ManifestEntry(NamedTuple):
    """One line of a manifest: a passage and its place, relative to the entry before it.

    Attributes:
        passage_id: the passage shown.
        gap: code points from the end of the entry before to this start; negative where they
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
    """What decides which of two events of a document wins: the greater one, compared as a tuple.

    Attributes:
        version: grows with each change at the source, 0 <= version < 2**63.
        digest: at equal versions a delete beats content, and then the greater SHA-256 of the
            event's content wins;
            33 bytes: one for the delete, 32 of the hash.
    """

    version: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Arrival:
    """When and where a broker took a record: what decides between a change and a delete without a
    version, and no time that a sender gives.

    Attributes:
        at: aware; by the broker's clock where it has one. partition, offset: on Kafka, where
            records of one partition are in the order of their offsets.
    """

    at: datetime
    partition: int | None = None
    offset: int | None = None

    @property
    def place(self) -> list[int] | None:
        """Partition and offset, as statements take them."""
        return (
            None if self.partition is None or self.offset is None else [self.partition, self.offset]
        )


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a document carries besides its text.

    Attributes:
        collection: its collection.
        source: the source it comes from.
        metadata: JSON object; no NUL, no lone surrogates.
        changed_at: when it changed at its source, aware.
        acl: the principals that may read it, each once, in order; None: everybody of the tenant;
            see `livedex.pipeline.acl`.
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
    """For whom something is read.

    Attributes:
        tenant_id: whose documents.
        principals: on whose behalf: only documents without rights, and those that one of these may
            read. None: every document.
    """

    tenant_id: TenantId
    principals: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version of a document: the ordered passages that make it.

    Attributes:
        outcome: the state the document gets; `deleted` leaves a tombstone.
        keep: leave the chunks that are visible as they are (an unreadable document).
        cut: how the text was cut (chunker version, size, overlap); another cut means: cut anew.
        error: what to do, where the outcome is a state without text.
    """

    tenant_id: TenantId
    document_id: DocumentId
    fence: Fence
    outcome: str
    attributes: Attributes
    entries: tuple[ManifestEntry, ...] = ()
    cut: str = ""
    keep: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CacheValidator:
    """What an unchanged resource is recognised by; one of the two.

    Attributes:
        place: names where the answer came from, redirects followed: the same validator of another
            place means nothing.
        etag: as its server said it.
        last_modified: a date, as its server said it.
    """

    place: bytes
    etag: str | None = None
    last_modified: str | None = None
