"""Which documents a search may use: the filters of the request, and the rights of the reader.

They are the last parameters of every statement of a retriever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from livedex.pipeline.model import Reader
from livedex.pipeline.search.metadata_filter import compile_filter, parse_filter
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.database import principals_parameter

_ORDER = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """Collections, documents, a predicate on the metadata, and rights; None means any.

    Attributes:
        path: the predicate as jsonpath.
        values: what the path names.
        principals: on whose behalf is searched; None: its reader may read every document.
    """

    collections: Sequence[str] | None = None
    document_ids: Sequence[str] | None = None
    path: str | None = None
    values: dict[str, Any] | None = None
    principals: Sequence[str] | None = None

    @property
    def has_no_request_filter(self) -> bool:
        """Whether the request leaves nothing out."""
        return self.collections is None and self.document_ids is None and self.path is None

    @property
    def is_unrestricted(self) -> bool:
        """Whether nothing is left out, by rights neither."""
        return self.has_no_request_filter and self.principals is None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The last five parameters of a statement: text[], text[], jsonpath, jsonb, text[]."""
        return self.collections, self.document_ids, self.path, self.values, self.principals


def document_filter(request: SearchRequest, reader: Reader) -> DocumentFilter:
    """What an answer to a reader is restricted to."""
    path, values = None, None
    on_document = _document_predicates(request)
    if on_document:
        path, values = _with_metadata(request, *on_document)
    elif request.where:
        path, values = compile_filter(parse_filter(request.where))
    return DocumentFilter(
        request.collection, request.document_ids, path, values, principals_parameter(reader)
    )


def _with_metadata(
    request: SearchRequest, predicates: list[str], values: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Join predicates on the document with the one on its metadata.

    The value `@document` tells the statements that the predicate is on both.
    """
    values["@document"] = True
    if request.where:
        metadata, _ = compile_filter(parse_filter(request.where), values, root="$.metadata")
        predicates = [*predicates, metadata]
    return " && ".join(f"({predicate})" for predicate in predicates), values


def _document_predicates(request: SearchRequest) -> tuple[list[str], dict[str, Any]] | None:
    """Write the filters on fields of the document as jsonpath predicates, with their values."""
    predicates: list[str] = []
    values: dict[str, Any] = {}
    for field, wanted in (("source", request.source), ("mime_type", request.mime_type)):
        if wanted is not None:
            values[f"d_{field}"] = wanted
            predicates.append(f"exists($.document.{field} ? (@ == $d_{field}[*]))")
    if request.path_prefix is not None:
        found = []
        for n, prefix in enumerate(request.path_prefix):
            values[f"d_prefix{n}"] = prefix
            found.append(f"exists($.document.document_id ? (@ starts with $d_prefix{n}))")
        predicates.append(" || ".join(found) or "1 == 0")
    for field, times in (("changed_at", request.changed_at), ("synced_at", request.synced_at)):
        for name, time in (times.model_dump(exclude_none=True) if times else {}).items():
            values[f"d_{field}_{name}"] = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
            order = _ORDER[name]
            predicates.append(f"exists($.document.{field} ? (@ {order} $d_{field}_{name}))")
    return (predicates, values) if predicates else None
