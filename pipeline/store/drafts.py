"""What the stages hand to the store, and what it answers: drafts, changes of access, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

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
    """A chunk on its way into a manifest.

    Attributes:
        hash: SHA-256 of exactly what is embedded for it.
        content: the text, not blank.
        gap: code points from the end of the piece before; negative where they overlap.
        heading: the heading path.
        words: what of it goes to the keyword index, as
            `livedex.pipeline.store.keyword_analyzer.analyze_text` has it; None: the store finds it
            out itself.
    """

    hash: bytes
    content: str
    gap: int
    heading: tuple[str, ...]
    words: AnalyzedText | None = None


@dataclass(frozen=True, slots=True)
class PassageCounts:
    """What a version takes.

    Attributes:
        new: distinct passages that were not known.
        reused: distinct passages that were.
        characters: of those that were not.
    """

    new: int = 0
    reused: int = 0
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """A version of a document as the chunk stage leaves it.

    Attributes:
        outcome: the state that the document gets; `deleted` leaves a tombstone.
        cut: configuration of the chunker; documents of another one are rechunked.
        keep: leave the visible chunks as they are (an unreadable document).
        error: what to do if the outcome is a state without text.
        arrival: of its event; None: it arrived when it was accepted.
        work: known once its passages are kept.
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

    @property
    def arrived(self) -> Arrival:
        """When and where its event arrived."""
        return self.arrival or Arrival(self.accepted_at)


@dataclass(frozen=True, slots=True)
class AccessUpdate:
    """What an accepted version does at once.

    Attributes:
        acl: see `livedex.pipeline.model.Attributes`; of no meaning for a delete, which the fence
            tells.
    """

    document_id: DocumentId
    fence: Fence
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExtractedMetadata:
    """What a content says of itself; `metadata` wins over what its source says, the others where
    the source says nothing.
    """

    title: str | None = None
    mime_type: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CachedContent:
    """What is known of a content that was fetched.

    Attributes:
        chunks_digest: SHA-256 of the pieces that were made of it, see
            `livedex.pipeline.stages.remote_content`. outcome, error: of the document.
    """

    validator: CacheValidator
    chunks_digest: bytes
    outcome: str
    error: str | None
    own: ExtractedMetadata


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    """A version whose passages are stored, and whose manifest is here alone.

    Attributes:
        entries: the manifest, in order.
        new: passages that were not known.
        missing: what has no vector in the generation.
    """

    draft: Draft
    generation_id: GenerationId
    entries: tuple[ManifestEntry, ...]
    new: int
    missing: MissingVectors


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did.

    Attributes:
        current: whether this version is the visible one now; False when a newer one stood there
            already, and nothing was written.
        chunks: chunks of the version now visible.
        inserted, deleted, updated: chunk rows written.
    """

    current: bool
    chunks: int = 0
    inserted: int = 0
    deleted: int = 0
    updated: int = 0
