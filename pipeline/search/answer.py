"""The answer to a search, in the form of the interface."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from livedex.pipeline.search.highlights import Fragment


class ContextChunk(TypedDict):
    """A chunk around a hit, or the hit itself."""

    chunk_index: int
    content: str
    start: int
    end: int


class Hit(TypedDict):
    """A chunk that was found: `content` is the document's text from code point `start` to `end`.

    `score` is the cosine similarity in [0, 1], None where no vector could be had; hits are ordered
    by `fused_score`; a rank is None where that retriever did not find the chunk. Fields that were
    not asked for are missing.
    """

    document_id: str
    chunk_index: int
    content: NotRequired[str]
    score: float | None
    fused_score: float
    vector_rank: int | None
    keyword_rank: int | None
    heading: list[str]
    start: int
    end: int
    title: str | None
    uri: str | None
    collection: str
    metadata: NotRequired[dict[str, Any]]
    version: int
    synced_at: datetime
    embedding: NotRequired[list[float]]
    explain: NotRequired[dict[str, Any]]
    highlights: NotRequired[list[Fragment]]
    rerank_score: NotRequired[float]
    also_in: NotRequired[list[dict[str, Any]]]
    context: NotRequired[list[ContextChunk]]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: best first.
        degraded: retrievers that were asked for and could not run: `vector`.
        took_ms: from the request to the answer.
        facets: documents by value for each facet that was asked for; None where none was.
        next_cursor: of the next page, where pages were asked for and more is left.
        did_you_mean: the query with other words for those that no readable document holds.
    """

    hits: list[Hit]
    degraded: list[str]
    took_ms: float
    facets: dict[str, dict[str, int]] | None = None
    next_cursor: str | None = None
    is_paged: bool = False
    did_you_mean: str | None = None

    def as_object(self) -> dict[str, Any]:
        """Return the answer as POST /v1/search has it, without what was not asked for."""
        found: dict[str, Any] = {
            "hits": self.hits,
            "degraded": self.degraded,
            "took_ms": self.took_ms,
        }
        if self.facets is not None:
            found["facets"] = self.facets
        if self.did_you_mean is not None:
            found["did_you_mean"] = self.did_you_mean
        if self.is_paged:
            found["next_cursor"] = self.next_cursor
        return found
