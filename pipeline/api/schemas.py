"""The shapes of answers, for the description in OpenAPI.

Answers are written from the stores' own types and not validated against these.
"""

from __future__ import annotations

from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from livedex.pipeline.http.problems import problem_responses
from livedex.pipeline.model import DocumentState

Version = Annotated[
    int,
    Field(
        ge=0,
        json_schema_extra={"format": "int64"},
        description="a string of digits where the request has `Accept: application/json; "
        "versions=string`",
    ),
]


class Document(BaseModel):
    """A document and how it is."""

    document_id: str
    state: DocumentState
    version: Version | None = Field(description="of what is visible; null while nothing is")
    pending_version: Version | None = Field(description="a newer version that is under way")
    chunk_count: int
    collection: str
    source: str
    title: str | None
    uri: str | None
    mime_type: str | None
    metadata: dict[str, Any]
    error: str | None = Field(
        description="what to do about a state without text, or about a dead letter"
    )
    changed_at: datetime | None
    synced_at: datetime | None
    acl: list[str] | None = Field(
        description="who may read it; null: everybody of the tenant. Of these, whoever asks "
        "on somebody's behalf is told only of those"
    )
    source_state: Literal["orphaned"] | None = Field(
        description="`orphaned`: no setting names the source any more, and nobody keeps the "
        "document true to it"
    )


class DocumentPage(BaseModel):
    """Documents in the order of their ids."""

    documents: list[Document]
    next_cursor: str | None = Field(description="for the next page; null on the last")


class Chunk(BaseModel):
    """A piece of a document: `text[start:end]`, in code points."""

    chunk_index: int
    content: str
    start: int
    end: int
    heading: list[str]


class Chunks(BaseModel):
    """All chunks of one version of a document, in order."""

    document_id: str
    version: Version | None
    chunks: list[Chunk]


class Collection(BaseModel):
    """A named group of documents."""

    name: str
    documents: int
    created_at: datetime | None = Field(
        description="null for the default collection before its first document"
    )


class Collections(BaseModel):
    """Every collection by name."""

    collections: list[Collection]


class DeletedCollection(BaseModel):
    """A collection whose documents are being deleted."""

    name: str
    documents: int = Field(description="how many deletes were accepted")


class SyncState(BaseModel):
    """What became of an accepted change."""

    state: Literal["pending", "synced", "superseded", "dead"]
    attempts: int | None = Field(description="of a dead one, over its replays")
    error: str | None = Field(
        description="what to do about a dead one, or about a state without text"
    )
    chunks: int | None = Field(description="of a synced one, as all that follows")
    embedded: int | None = Field(description="distinct passages that were not known before")
    reused: int | None = Field(description="distinct passages that were known")
    deleted: int | None = Field(description="chunks of the version before that are no more")
    tokens: int | None = Field(description="about as many were embedded")


class Fragment(BaseModel):
    """An excerpt of a hit."""

    text: str
    start: int = Field(description="where it begins in the content, in code points")
    spans: list[list[int]] = Field(description="start and end of each matching word in `text`")


class OtherDocument(BaseModel):
    """A document that holds the passage of a hit, too."""

    document_id: str
    title: str | None
    uri: str | None
    collection: str


class ContextChunk(BaseModel):
    """A chunk around a hit, or the hit itself."""

    chunk_index: int
    content: str
    start: int
    end: int


class Hit(BaseModel):
    """A chunk that was found; `content`, `metadata`, `embedding` and `explain` as `include` asks
    for them.
    """

    document_id: str
    chunk_index: int
    content: str | None = None
    score: float | None = Field(
        ge=0, le=1, description="cosine similarity; null where no vector could be had"
    )
    fused_score: float
    vector_rank: int | None
    keyword_rank: int | None
    heading: list[str]
    start: int
    end: int
    title: str | None
    uri: str | None
    collection: str
    metadata: dict[str, Any] | None = None
    version: Version
    synced_at: datetime
    embedding: list[float] | None = None
    explain: dict[str, Any] | None = None
    highlights: list[Fragment] | None = None
    also_in: list[OtherDocument] | None = Field(
        default=None, description="with `collapse`: other documents that hold this passage"
    )
    context: list[ContextChunk] | None = Field(
        default=None, description="with `context`: the chunks around the hit, in order"
    )


class Indexing(BaseModel):
    """How far the first load of the watched folders is, in documents."""

    done: int = Field(ge=0, description="indexed, or known to have no text")
    found: int = Field(ge=0)


class Hits(BaseModel):
    """The answer to a search, best first."""

    hits: list[Hit]
    degraded: list[str] = Field(
        description="legs that could not run, or not over everything: `vector` while the "
        "embedder is away, or while not everything is embedded by the "
        "model in use"
    )
    took_ms: float
    facets: dict[str, dict[str, int]] | None = Field(
        default=None, description="documents found, by value, for each facet of the request"
    )
    next_cursor: str | None = Field(
        default=None, description="with `cursor`: of the next page; null on the last one"
    )
    indexing: Indexing | None = Field(
        default=None,
        description="how far the first load of the watched folders is; absent once it has ended",
    )


class Citation(BaseModel):
    """A source that an answer cites: `content` is its document's text from `start` to `end`."""

    number: int = Field(description="the number in the answer's markers")
    document_id: str
    chunk_index: int
    version: Version
    start: int
    end: int
    heading: list[str]
    title: str | None
    uri: str | None
    content: str


class AnswerSentence(BaseModel):
    """A sentence of an answer."""

    text: str
    citations: list[int]
    supported: bool = Field(description="whether a source that it cites shares a word with it")


class AnswerUsage(BaseModel):
    """What a chat model used for an answer."""

    input_tokens: int | None
    output_tokens: int | None
    cached: bool = Field(description="the answer to exactly this prompt was reused")


class AskAnswer(BaseModel):
    """An answer with its citations."""

    answer: str = Field(description="with a marker `[n]` after what source n supports")
    citations: list[Citation]
    sentences: list[AnswerSentence]
    model: str = Field(description="`extractive`, or the chat model")
    question: str = Field(description="as it was searched for")
    degraded: list[str] = Field(
        description="as of a search; also `chat`: the chat model did not answer, so the answer is "
        "extractive"
    )
    dropped_markers: int = Field(description="citations that the model invented, removed")
    usage: AnswerUsage | None
    took_ms: float


class Embedding(BaseModel):
    """A text as a vector."""

    model: str = Field(description="names the vector space, as `openai:text-embedding-3-small`")
    dimensions: int = Field(ge=1)
    embedding: list[float] = Field(description="of length 1")


class Alive(BaseModel):
    """The process answers, and what runs in it gets on, or what does not."""

    status: Literal["ok", "stalled"]
    reasons: list[str] = []


class Readiness(BaseModel):
    """Able to serve, perhaps with less than everything."""

    status: Literal["ok", "unready"]
    degraded: dict[str, str] = Field(
        description="what is away though what is served here works, with the reason for who "
        "may know it"
    )
    reasons: list[str] = Field(
        description="why it cannot serve: each component, with the reason for who may know it"
    )


def ok_response(
    model: type[BaseModel] | UnionType, description: str
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that answers 200 in this shape."""
    return {200: {"model": model, "description": description}}


class AcceptedDocument(BaseModel):
    """A change of one document was accepted."""

    document_id: str
    version: Version
    token: str = Field(description="for `GET /v1/sync/{token}` and `after` of a search")


class AcceptedEvents(BaseModel):
    """Events were accepted."""

    tokens: list[str] = Field(description="one for each document that changes, in order")


def accepted_responses(model: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that accepts, and may refuse with these statuses."""
    return {
        202: {"model": model, "description": "Accepted: it is held, and nothing of it can be lost"},
        **problem_responses(*statuses),
    }


WRITE_ERROR_STATUSES = (401, 403, 408, 409, 413, 415, 422, 429, 503)
