"""The answer to a search, in the form of the interface."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict


class Hit(TypedDict):
    """A chunk that was found: `content` is the document's text from code point `start` to `end`.

    `score` is the cosine similarity in [0, 1], None where no vector could be had; hits are ordered
    by `fused_score`; a rank is None where that leg did not find the chunk. Fields that were not
    asked for are missing.
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


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found.

    Attributes:
        hits: best first.
        degraded: legs that were asked for and could not run: `vector`.
        took_ms: from the request to the answer.
    """

    hits: list[Hit]
    degraded: list[str]
    took_ms: float
