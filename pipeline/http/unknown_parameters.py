"""Rejects unknown and repeated query parameters: ignoring a filter would silently widen the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.requests import Request

from livedex.pipeline.runtime.name_suggestions import did_you_mean

_MOST_TOLD = 5  # reported errors
_SYNONYMS: Mapping[str, str] = {
    "page_size": "limit",
    "per_page": "limit",
    "size": "limit",
    "count": "limit",
    "top_k": "limit",
    "n": "limit",
    "max_results": "limit",
    "page": "cursor",
    "offset": "cursor",
    "page_token": "cursor",
    "next_cursor": "cursor",
    "after": "cursor",
    "starting_after": "cursor",
    "skip": "cursor",
    "status": "state",
    "index": "collection",
    "collection_name": "collection",
    "source_name": "source",
    "wait": "wait_s",
    "timeout": "wait_s",
    "timeout_s": "wait_s",
    "user": "principals",
    "groups": "principals",
    "on_behalf_of": "principals",
    "permissions": "acl",
    "meta": "metadata",
    "id": "document_id",
    "name": "title",
    "link": "uri",
}
"""Names that other services use for our parameters, suggested only if the operation has the
parameter.
"""


def check_query_parameters(request: Request) -> None:
    """Check that the operation has all parameters of the query, and that only lists are repeated.

    Args:
        request: with its route.

    Raises:
        RequestValidationError: a parameter is unknown or repeated; the first few are reported.
    """
    if not request.query_params:
        return
    known, given = _parameters(request), set[str]()
    wrong: list[dict[str, Any]] = []
    for name, _ in request.query_params.multi_items():
        if len(wrong) == _MOST_TOLD:
            break
        if name not in known:
            wrong.append(
                {
                    "loc": ("query", name),
                    "msg": f"unknown parameter{_meant(name, known)}",
                    "type": "extra_forbidden",
                }
            )
        elif name in given and not known[name]:
            wrong.append(
                {"loc": ("query", name), "msg": "it must be given only once", "type": "value_error"}
            )
        given.add(name)
    if wrong:
        raise RequestValidationError(wrong)


def _meant(name: str, known: Mapping[str, bool]) -> str:
    if not known:
        return ": it takes none"
    return did_you_mean(name, known, _SYNONYMS) or f": it takes {', '.join(sorted(known))}"


def _parameters(request: Request) -> Mapping[str, bool]:
    """Return the query parameters of the operation, each with whether it may be repeated."""
    route: APIRoute = request.scope["route"]
    known = _known.setdefault(route.endpoint, {})
    if route.path_format not in known:
        known[route.path_format] = _described_parameters(route)
    return known[route.path_format][request.method.lower()]


_known: WeakKeyDictionary[Callable[..., Any], dict[str, dict[str, dict[str, bool]]]] = (
    WeakKeyDictionary()
)
"""By endpoint (routes are not hashable), then by path and method."""


def _described_parameters(route: APIRoute) -> dict[str, dict[str, bool]]:
    """Return the query parameters of this route by method. Only this route is described: the
    OpenAPI of the whole API takes hundreds of milliseconds, which would block other requests.
    """
    described = get_openapi(title="", version="", routes=[route])
    return {
        method: {
            each["name"]: _is_list(each["schema"])
            for each in operation.get("parameters", ())
            if each["in"] == "query"
        }
        for method, operation in described["paths"][route.path_format].items()
    }


def _is_list(schema: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "array" for each in schema.get("anyOf", [schema]))
