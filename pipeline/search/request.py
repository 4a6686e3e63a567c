"""A search request as callers send it.

Everything is strict: a wrong type, an unknown field or a number out of bounds is refused.
"""

from __future__ import annotations

import math
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from livedex.pipeline.model import NO_NUL_PATTERN
from livedex.pipeline.search.metadata_filter import parse_filter
from livedex.pipeline.search.query_syntax import WebQuery, parse_web_query

MAX_QUERY_CHARACTERS = 20_000
MAX_NAMES = 1_000
_MAX_KEYS = 8  # of a nested object: each unknown one would be an error of its own
Mode = Literal["hybrid", "vector", "keyword"]
Fusion = Literal["min_max", "rrf", "weighted"]
QuerySyntax = Literal["plain", "web"]
DEFAULT_RRF_K = 60
IncludeField = Literal["content", "metadata", "embedding", "explain", "highlights"]


def _without_controls(value: object) -> object:
    """Control characters and torn halves of characters part words, as spaces do."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(
        " " if unicodedata.category(c) in ("Cc", "Cs") else c
        for c in value[: MAX_QUERY_CHARACTERS + 1]
    )


def _not_blank(value: str) -> str:
    if not any(unicodedata.category(c)[0] not in "CZ" for c in value):
        raise ValueError("nothing but white space")
    return value


def _name(value: str) -> str:
    if "\x00" in value:
        raise ValueError("a name holds no NUL")
    return value


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Query = Annotated[
    str,
    Field(min_length=1, max_length=MAX_QUERY_CHARACTERS),
    BeforeValidator(_without_controls),
    AfterValidator(_not_blank),
]
_Name = Annotated[str, Field(json_schema_extra={"pattern": NO_NUL_PATTERN}), AfterValidator(_name)]
_Listed = Annotated[list[_Name], Field(max_length=MAX_NAMES, fail_fast=True)]
Names = Annotated[_Listed, BeforeValidator(_as_list, json_schema_input_type=_Name | _Listed)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


def few_keys(value: object) -> object:
    """Refuse an object with far more fields than any has, before each is an error.

    Raises:
        ValueError: the value is invalid; the message says why.
    """
    if isinstance(value, dict) and len(value) > _MAX_KEYS:
        raise ValueError(f"an object of at most {_MAX_KEYS} fields")
    return value


class TimeRange(BaseModel):
    """A range of times, each with a time zone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gte: AwareDatetime | None = None
    gt: AwareDatetime | None = None
    lte: AwareDatetime | None = None
    lt: AwareDatetime | None = None


class Recency(BaseModel):
    """How much newer documents are preferred.

    Attributes:
        field: the time that counts; a document without it counts as old.
        half_life_days: the age at which the bonus has halved.
        weight: share of the score that depends on the age.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    field: Literal["changed_at", "synced_at"] = "changed_at"
    half_life_days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = 30
    weight: Share = 0.2


class SearchRequest(BaseModel):
    """The body of POST /v1/search.

    Attributes:
        query: words; required unless there is a vector, and in keyword mode.
        query_syntax: `plain` reads the query as words; `web` knows quoted phrases, `-word`, `OR`
            and `prefix*`, see `livedex.pipeline.search.query_syntax`.
        query_vector: of the active generation's dimensions, of any length but zero; used by the
            vector retriever instead of the query.
        limit: hits.
        collection, document_ids: only these.
        where: on the metadata, see `livedex.pipeline.search.metadata_filter`.
        min_score: cosine similarity at least, in the vector retriever.
        candidates: taken from each retriever before fusion; `limit` where that is more.
        ef_search: recall against speed of the vector index; raised to `candidates`.
        fusion: `min_max` adds scores scaled from each retriever's worst to its best, `weighted`
            adds similarities and shares of the best BM25 score, `rrf` adds reciprocal ranks.
            Default: `min_max`, or `rrf` if `rrf_k` is given.
        alpha: weight of the vector retriever in `min_max` (default 0.3) and `weighted` (default
            0.5); the keyword retriever has the rest.
        expand: add words of the best passages to the query and rank again (RM3), in hybrid mode.
        source, mime_type: only documents of these.
        path_prefix: only documents whose id begins with one of these.
        changed_at, synced_at: only documents changed at their source, or made searchable, then.
        rerank: let the configured reranker order the best 50 hits.
        mmr: order hits so that each is relevant and unlike those before it.
        mmr_lambda: weight of relevance in MMR; 1 is relevance alone, 0 diversity alone.
        top_p: only the best hits whose softmax of fused scores adds up to this share.
        collapse: one hit for a passage that stands in several documents; `also_in` names the
            others.
        group_by: `document` puts the hits of a document together; `limit` counts documents.
        max_per_document: hits of one document; 1 by default with `group_by`, else unlimited.
        context: chunks before and after each hit that are returned with it.
        facets: count values of `collection`, `source`, `mime_type` or metadata keys among the
            documents that were found.
        recency: prefer newer documents.
        cursor: empty for the first page, then the `next_cursor` of the last one.
        include: fields of a hit beside the ones it always has.
        after: a token; whoever serves the request waits for it, up to `wait_s` seconds.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    query: Query | None = None
    query_syntax: QuerySyntax = "plain"
    query_vector: (
        Annotated[
            list[Annotated[float, Field(allow_inf_nan=False)]],
            Field(min_length=1, max_length=4000, fail_fast=True),
        ]
        | None
    ) = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 8
    mode: Mode = "hybrid"
    collection: Names | None = None
    document_ids: Names | None = None
    where: dict[str, Any] | None = None
    min_score: Share | None = None
    candidates: Annotated[int, Field(ge=1, le=10_000)] = 100
    ef_search: Annotated[int, Field(ge=1, le=1000)] | None = None
    fusion: Fusion | None = None
    rrf_k: Annotated[int, Field(ge=1, le=10_000)] | None = None
    alpha: Share | None = None
    expand: bool = True
    include: list[IncludeField] = Field(
        default=["content", "metadata"], max_length=16, fail_fast=True
    )
    source: Names | None = None
    path_prefix: Names | None = None
    mime_type: Names | None = None
    changed_at: Annotated[TimeRange, BeforeValidator(few_keys)] | None = None
    synced_at: Annotated[TimeRange, BeforeValidator(few_keys)] | None = None
    rerank: bool = False
    mmr: bool = False
    mmr_lambda: Share = 0.5
    top_p: Share | None = None
    collapse: bool = False
    group_by: Literal["document"] | None = None
    max_per_document: Annotated[int, Field(ge=1, le=1000)] | None = None
    context: Annotated[int, Field(ge=0, le=20)] = 0
    facets: Annotated[list[_Name], Field(max_length=20, fail_fast=True)] = []
    recency: Annotated[Recency, BeforeValidator(few_keys)] | None = None
    cursor: Annotated[str, Field(max_length=100_000)] | None = None
    after: Annotated[str, Field(max_length=20_000)] | None = None
    wait_s: Annotated[float, Field(ge=0, le=30, allow_inf_nan=False)] = 5

    @property
    def fusion_method(self) -> Fusion:
        """How the retrievers' results are joined."""
        return self.fusion or ("min_max" if self.rrf_k is None else "rrf")

    @property
    def web_query(self) -> WebQuery | None:
        """The query as the syntax `web` reads it; None in the plain syntax."""
        if self.query_syntax == "plain" or self.query is None:
            return None
        return parse_web_query(self.query)

    @property
    def words(self) -> str:
        """The text that is ranked by and embedded: the query without operators and excluded words;
        empty where there is none.
        """
        found = self.web_query
        return (self.query or "") if found is None else found.text

    @property
    def rank_constant(self) -> int:
        """The constant of reciprocal rank fusion, also where the request does not say it."""
        return self.rrf_k or DEFAULT_RRF_K

    @property
    def vector_weight(self) -> float:
        """The weight of the vector retriever in a fusion of scores."""
        if self.alpha is not None:
            return self.alpha
        return 0.5 if self.fusion_method == "weighted" else 0.3

    @field_validator("query_vector")
    @classmethod
    def _has_a_direction(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and not 1e-150 < math.hypot(*value) < 1e150:
            raise ValueError(
                "the vector's length is zero or beyond any embedding's: it has no direction"
            )
        return value

    @field_validator("where")
    @classmethod
    def _makes_sense(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value:
            parse_filter(value)
        return value

    @model_validator(mode="after")
    def _reranks_whole_answers(self) -> SearchRequest:
        if self.rerank and (self.cursor is not None or self.group_by is not None):
            raise ValueError("`rerank` goes with neither `cursor` nor `group_by`")
        return self

    @model_validator(mode="after")
    def _asks_for_something(self) -> SearchRequest:
        if self.query is None and self.query_vector is None:
            raise ValueError("`query` is missing: give words, or a `query_vector`")
        if self.query is None and self.mode == "keyword":
            raise ValueError("`query` is missing: keyword mode needs words")
        return self
