"""Models of responses for the OpenAPI description.

Responses are serialized from the stores' types, and are not validated against these models.
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
        description="returned as a string of digits if the request has `Accept: application/json; "
        "versions=string`",
    ),
]


class Document(BaseModel):
    """A document and its state."""

    document_id: str
    state: DocumentState
    version: Version | None = Field(description="visible version; null while none is visible")
    pending_version: Version | None = Field(description="newer version that is being processed")
    chunk_count: int
    collection: str
    source: str
    title: str | None
    uri: str | None
    mime_type: str | None
    metadata: dict[str, Any]
    error: str | None = Field(
        description="for a document without text or a dead letter: how to fix it"
    )
    changed_at: datetime | None
    synced_at: datetime | None
    acl: list[str] | None = Field(
        description="principals that may read it; null: every caller of the tenant. A request "
        "with `principals` sees only those of them that it named"
    )
    source_state: Literal["orphaned"] | None = Field(
        description="`orphaned`: its source is no longer configured, so the document is no "
        "longer updated"
    )


class DocumentPage(BaseModel):
    """Documents in the order of their ids."""

    documents: list[Document]
    next_cursor: str | None = Field(description="cursor of the next page; null on the last page")


class Chunk(BaseModel):
    """A chunk of a document: `text[start:end]`, in code points."""

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
    documents: int = Field(description="number of accepted deletes")


class Money(BaseModel):
    """An amount of money."""

    amount: str = Field(description="decimal number")
    currency: Literal["USD"]


class SyncState(BaseModel):
    """The processing state of an accepted change."""

    state: Literal["pending", "synced", "superseded", "dead"]
    attempts: int | None = Field(description="with `dead`: attempts, including replays")
    error: str | None = Field(
        description="for a dead letter or a document without text: how to fix it"
    )
    chunks: int | None = Field(
        description="chunks of the version; this and all fields below are set only for `synced`"
    )
    embedded: int | None = Field(description="distinct passages that were embedded")
    reused: int | None = Field(description="distinct passages whose stored vectors were reused")
    deleted: int | None = Field(description="chunks of the previous version that were deleted")
    tokens: int | None = Field(
        description="tokens embedded, as the provider counted them, or an estimate"
    )
    cost: Money | None = Field(description="price of these tokens; null if unknown")


class Fragment(BaseModel):
    """An excerpt of a hit."""

    text: str
    start: int = Field(description="offset in the content, in code points")
    spans: list[list[int]] = Field(description="start and end of each matching word in `text`")


class OtherDocument(BaseModel):
    """Another document that contains the passage of a hit."""

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
    """A chunk that was found. `include` selects `content`, `metadata`, `embedding`, `explain`."""

    document_id: str
    chunk_index: int
    content: str | None = None
    score: float | None = Field(
        ge=0, le=1, description="cosine similarity; null if no vector is available"
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
    rerank_score: float | None = Field(
        default=None, description="with `rerank`: score by which the hits are ordered"
    )
    also_in: list[OtherDocument] | None = Field(
        default=None, description="with `collapse`: other documents that contain this passage"
    )
    context: list[ContextChunk] | None = Field(
        default=None, description="with `context`: the chunks around the hit, in order"
    )


class Indexing(BaseModel):
    """The progress of the initial load of the watched folders, in documents."""

    done: int = Field(ge=0, description="documents that are indexed or have no text")
    found: int = Field(ge=0)


class Hits(BaseModel):
    """The result of a search, best hits first."""

    hits: list[Hit]
    degraded: list[str] = Field(
        description="retrievers that failed or were incomplete: `vector` while the embedder is "
        "unavailable, or while some documents lack vectors of the current model; `rerank` if the "
        "reranker did not answer"
    )
    took_ms: float
    facets: dict[str, dict[str, int]] | None = Field(
        default=None, description="number of documents found for each value of each requested facet"
    )
    did_you_mean: str | None = Field(
        default=None,
        description="the query with other words for those that no document holds; its hits are "
        "returned if the query itself finds none; absent if there is no suggestion",
    )
    next_cursor: str | None = Field(
        default=None, description="with `cursor`: cursor of the next page; null on the last page"
    )
    indexing: Indexing | None = Field(
        default=None,
        description="progress of the initial load of the watched folders; absent once it ends",
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
    supported: bool = Field(description="whether a cited source shares a word with the sentence")


class AnswerUsage(BaseModel):
    """What a chat model used for an answer."""

    input_tokens: int | None
    output_tokens: int | None
    cached: bool = Field(description="whether a cached answer to the same prompt was reused")


class AskAnswer(BaseModel):
    """An answer with its citations."""

    answer: str = Field(description="the answer; `[n]` follows a statement that source n supports")
    citations: list[Citation]
    sentences: list[AnswerSentence]
    model: str = Field(description="`extractive`, or the name of the chat model")
    question: str = Field(description="the question used for the search")
    degraded: list[str] = Field(
        description="as for a search; also `chat`: the chat model failed, so the answer is "
        "extractive"
    )
    dropped_markers: int = Field(
        description="number of invalid citations removed from the model's answer"
    )
    usage: AnswerUsage | None
    took_ms: float


class Embedding(BaseModel):
    """A text as a vector."""

    model: str = Field(description="embedding model, e.g. `openai:text-embedding-3-small`")
    dimensions: int = Field(ge=1)
    embedding: list[float] = Field(description="vector, normalized to length 1")


class Alive(BaseModel):
    """Whether the process and its background tasks make progress."""

    status: Literal["ok", "stalled"]
    reasons: list[str] = []


class Readiness(BaseModel):
    """Whether the process can serve requests, and which components are degraded."""

    status: Literal["ok", "unready"]
    degraded: dict[str, str] = Field(
        description="unavailable components without which the process can still serve; reasons "
        "are shown only to authorized callers"
    )
    reasons: list[str] = Field(
        description="components that prevent serving; details only for authorized callers"
    )


def ok_response(
    model: type[BaseModel] | UnionType, description: str
) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route with a 200 response of this model."""
    return {200: {"model": model, "description": description}}


class AcceptedDocument(BaseModel):
    """A change of one document was accepted."""

    document_id: str
    version: Version
    token: str = Field(description="token for `GET /v1/sync/{token}` and for `after` in a search")


class AcceptedEvents(BaseModel):
    """Events were accepted."""

    tokens: list[str] = Field(description="one token for each changed document, in order")


def accepted_responses(model: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route with a 202 response and these error statuses."""
    return {
        202: {"model": model, "description": "Accepted and durably stored"},
        **problem_responses(*statuses),
    }


WRITE_ERROR_STATUSES = (401, 403, 408, 409, 413, 415, 422, 429, 503)
