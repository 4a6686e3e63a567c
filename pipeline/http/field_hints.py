"""Suggestions for unknown fields in request bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from livedex.pipeline.runtime.name_suggestions import did_you_mean

_SYNONYMS: Mapping[str, str] = {
    "q": "query",
    "question": "query",
    "search": "query",
    "text_query": "query",
    "prompt": "query",
    "input": "text",
    "vector": "query_vector",
    "embedding": "query_vector",
    "top_k": "limit",
    "topk": "limit",
    "k": "limit",
    "n": "limit",
    "n_results": "limit",
    "size": "limit",
    "count": "limit",
    "max_results": "limit",
    "page_size": "limit",
    "filter": "where",
    "filters": "where",
    "metadata_filter": "where",
    "collection_name": "collection",
    "index": "collection",
    "ids": "document_ids",
    "document_id": "document_ids",
    "threshold": "min_score",
    "score_threshold": "min_score",
    "similarity_threshold": "min_score",
    "num_candidates": "candidates",
    "user": "principals",
    "groups": "principals",
    "content": "text",
    "body": "text",
    "base64": "content_base64",
    "content_type": "mime_type",
    "media_type": "mime_type",
    "name": "title",
    "link": "uri",
    "meta": "metadata",
    "properties": "metadata",
    "attributes": "metadata",
    "permissions": "acl",
    "tags": "metadata",
    "with_payload": "include",
    "fields": "include",
    "type": "mode",
}
"""Names of other search services for our fields, suggested only if the body has the field."""

_MOST_HINTS = 5


def add_field_suggestions(errors: Sequence[Any], request: Request) -> list[Any]:
    """Return the errors of a body; the first few about unknown fields name the probable field, or
    all known fields.

    Args:
        errors: of pydantic.
        request: whose OpenAPI description lists the fields of its body.
    """
    known: list[str] | None = None
    told = []
    for n, error in enumerate(errors):
        place = [part for part in error["loc"] if part != "body"]
        if (
            n < _MOST_HINTS
            and error["type"] == "extra_forbidden"
            and error["loc"][:1] != ("query",)
            and len(place) == 1
        ):
            known = _fields(request) if known is None else known
            if known:
                meant = did_you_mean(str(place[0]), known, _SYNONYMS)
                error = {
                    **error,
                    "msg": f"unknown field{meant or ': it takes ' + ', '.join(sorted(known))}",
                }
        told.append(error)
    return told


def _fields(request: Request) -> list[str]:
    """Return the fields of the JSON body from its OpenAPI description; empty: no description."""
    route = request.scope.get("route")
    described = request.app.openapi()
    operation = (
        described["paths"]
        .get(getattr(route, "path_format", ""), {})
        .get(request.method.lower(), {})
    )
    schema = (
        operation.get("requestBody", {})
        .get("content", {})
        .get("application/json", {})
        .get("schema", {})
    )
    while "$ref" in schema:
        schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    parts = [schema, *schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return list(dict.fromkeys(name for part in parts for name in part.get("properties", {})))
