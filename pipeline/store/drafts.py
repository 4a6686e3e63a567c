"""Types that the stages and the store exchange: drafts, access updates and sync results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from livedex.pipeline.costs.bill import Bill, EmbeddedPassages
from livedex.pipeline.model import (
    Arrival,
    Attributes,
    CacheValidator,
    DocumentId,
    Fence,
    GenerationId,
    ManifestEntry,
    PassageId,
    TenantId,
)
from livedex.pipeline.store.keyword_analyzer import AnalyzedText

MissingVectors: TypeAlias = list[tuple[PassageId, str]]
"""Passages without a vector, each once, with their texts."""


class DraftChunk(NamedTuple):
    """A chunk that is not stored yet.

    Attributes:
        hash: SHA-256 of the exact text that is embedded.
        content: the text, not blank.
        gap: code points from the end of the previous chunk; negative if they overlap.
        heading: the heading path.
        words: the result of `livedex.pipeline.store.keyword_analyzer.analyze_text`; None: the store
            analyzes the text.
    """

    hash: bytes
    content: str
    gap: int
    heading: tuple[str, ...]
    words: AnalyzedText | None = None


@dataclass(frozen=True, slots=True)
class PassageCounts:
    """Counts of the distinct passages of a version.

    Attributes:
        new: passages that were not stored before.
        reused: passages that were already stored.
        characters: total length of the new passages, in code points.
    """

    new: int = 0
    reused: int = 0
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """The output of the chunk stage for one version of a document.

    Attributes:
        tenant_id: owner of the document.
        document_id: of the document.
        fence: orders this version among the others of the document.
        outcome: the state that the document gets; `deleted` leaves a tombstone.
        attributes: metadata of the document.
        accepted_at: time at which the change was accepted, aware.
        pieces: the chunks in order.
        cut: chunker configuration; documents chunked with another one are rechunked.
        keep: leave the visible chunks unchanged (an unreadable document).
        error: what to do, if the outcome is a state without text.
        arrival: of its event; None: the change arrived when it was accepted.
        work: passage counts; None until the passages are stored.
        embedded: passages that were embedded for it; None: none were.
    """

    tenant_id: TenantId
    document_id: DocumentId
    fence: Fence
    outcome: str
    attributes: Attributes
    accepted_at: datetime
    pieces: Sequence[DraftChunk] = ()
    cut: str = ""
    keep: bool = False
    error: str | None = None
    arrival: Arrival | None = None
    work: PassageCounts | None = None
    embedded: EmbeddedPassages | None = None

    @property
    def arrived(self) -> Arrival:
        """Return when and where the event arrived."""
        return self.arrival or Arrival(self.accepted_at)


@dataclass(frozen=True, slots=True)
class AccessUpdate:
    """An ACL or a delete that takes effect when the change is accepted, before it is processed.

    Attributes:
        document_id: of the document.
        fence: of the accepted version; its digest tells whether it is a delete.
        acl: see `livedex.pipeline.model.Attributes`; ignored for a delete.
    """

    document_id: DocumentId
    fence: Fence
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExtractedMetadata:
    """Metadata found inside a document's content.

    Keys of `metadata` override the source's metadata. `title` and `mime_type` apply only if the
    source gives none.
    """

    title: str | None = None
    mime_type: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CachedContent:
    """Cached facts about fetched content.

    Attributes:
        validator: ETag or date for a conditional request.
        chunks_digest: SHA-256 of its chunks, see `livedex.pipeline.stages.remote_content`.
        outcome: state of the document.
        error: what to do, if the state is one without text.
        own: metadata found inside the content.
    """

    validator: CacheValidator
    chunks_digest: bytes
    outcome: str
    error: str | None
    own: ExtractedMetadata


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    """A version whose passages are stored; its manifest exists only in this object.

    Attributes:
        draft: the version.
        generation_id: the generation in which vectors were looked up.
        entries: the manifest, in order.
        new: number of passages that were not stored before.
        missing: passages without a vector in the generation.
    """

    draft: Draft
    generation_id: GenerationId
    entries: tuple[ManifestEntry, ...]
    new: int
    missing: MissingVectors


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The result of a sync.

    Attributes:
        current: whether this version is now visible; False: a newer version was visible already,
            and nothing was written.
        chunks: number of chunks of the visible version.
        inserted: chunk rows inserted.
        deleted: chunk rows deleted.
        updated: chunk rows updated.
        bill: what the version took; None: nothing was written, or no text was needed.
    """

    current: bool
    chunks: int = 0
    inserted: int = 0
    deleted: int = 0
    updated: int = 0
    bill: Bill | None = None
