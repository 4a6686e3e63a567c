"""Go on only with a query that says what its operation takes, each parameter once: one that is
left aside would widen what is asked for, unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.requests import Request

from livedex.pipeline.runtime.name_suggestions import did_you_mean

_MOST_TOLD = 5
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
"""What other services call the parameters of ours; counts only where the operation has that
parameter.
"""


def check_query_parameters(request: Request) -> None:
    """Go on only if every parameter in the query is one of the operation's, and none but a list is
    given twice.

    Args:
        request: one that has its route.

    Raises:
        RequestValidationError: a name is none of this operation, or is repeated; the first few are
        told.
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
                    "msg": f"no such parameter{_meant(name, known)}",
                    "type": "extra_forbidden",
                }
            )
        elif name in given and not known[name]:
            wrong.append({"loc": ("query", name), "msg": "give it once", "type": "value_error"})
        given.add(name)
    if wrong:
        raise RequestValidationError(wrong)


def _meant(name: str, known: Mapping[str, bool]) -> str:
    if not known:
        return ": it takes none"
    return did_you_mean(name, known, _SYNONYMS) or f": it takes {', '.join(sorted(known))}"


def _parameters(request: Request) -> dict[str, bool]:
    """What the description of the API says that a query of this operation takes, and whether it
    may be given several times.
    """
    path: str = request.scope["route"].path_format
    operation: Mapping[str, Any] = request.app.openapi()["paths"][path][request.method.lower()]
    return {
        each["name"]: each["schema"].get("type") == "array"
        for each in operation.get("parameters", ())
        if each["in"] == "query"
    }
