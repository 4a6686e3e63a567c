"""Error responses as RFC 9457 problem details, and the mapping from errors to HTTP statuses.

Details say what is wrong and what to do. They contain no stack traces and no control characters.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from livedex.pipeline.errors import (
    ConflictError,
    ForbiddenError,
    LivedexError,
    NotFoundError,
    OutageError,
    ReadTimeoutError,
    RejectedError,
    RetryableError,
    TenantDeletedError,
    TenantRequiredError,
)
from livedex.pipeline.http.field_hints import add_field_suggestions

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
DEFAULT_RETRY_S = 5.0
_MAX_DETAIL = 500
_MAX_ERRORS = 20
_MAX_NAME = 200


def problem_response(
    status: int,
    detail: str,
    *,
    kind: str = "",
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error response.

    Args:
        status: 400 to 599.
        detail: what is wrong with this request, and what to do.
        kind: a short name from a closed set; default: that of the status.
        errors: invalid fields, each with `pointer` and `detail`.
        headers: further headers of the response.
    """
    title = HTTPStatus(status).phrase
    name = kind or title.lower().replace(" ", "-")
    body: dict[str, Any] = {
        "type": f"urn:livedex:problem:{name}",
        "title": title,
        "status": status,
        "detail": sanitize_detail(detail) or title,
    }
    if errors:
        body["errors"] = list(errors)
    return Response(orjson.dumps(body), status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def sanitize_detail(text: str) -> str:
    """Return a client's text for an error message: printable, valid Unicode, at most 500
    characters.
    """
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:_MAX_DETAIL])
    return shown if len(shown) <= _MAX_DETAIL else shown[:_MAX_DETAIL]


def validation_problem(errors: Sequence[Any]) -> Response:
    """Return the response 422 for a request that fails validation.

    Args:
        errors: of pydantic; the response shows path and message, never the value.
    """
    told = [
        {"pointer": _pointer(error["loc"]), "detail": sanitize_detail(str(error["msg"]))}
        for error in errors[:_MAX_ERRORS]
    ]
    first = (
        f"{told[0]['pointer'].removeprefix('#/')}: {told[0]['detail']}"
        if told
        else "the request is invalid"
    )
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return problem_response(422, first + more, kind="invalid-request", errors=told)


def _pointer(place: Sequence[str | int]) -> str:
    parts = [str(part)[:_MAX_NAME] for part in place]
    if parts and parts[0] in ("body", "query", "path", "header") and len(parts) > 1:
        parts = parts[1:]
    return "#/" + "/".join(
        sanitize_detail(part).replace("~", "~0").replace("/", "~1") for part in parts
    )


def internal_error(request_id: str) -> Response:
    """Return the response 500 for an unexpected error; the log has its details by request id."""
    return problem_response(
        500, f"internal error; the log of the service has the details under request {request_id}"
    )


_UNAVAILABLE_DETAILS = {
    "embedder": "the embedder is unavailable: retry later, or search with mode hybrid or keyword, "
    "which work without it",
    "blobs": "the storage for large documents is unavailable: retry later",
}


def problem_for_error(error: LivedexError) -> Response:
    """Return the response for an error.

    Args:
        error: raised by a route.

    Raises:
        LivedexError: the error has no HTTP status; it becomes a 500.
    """
    if isinstance(error, OutageError):
        return _unavailable(
            _UNAVAILABLE_DETAILS.get(
                error.component, f"the {error.component} is unavailable: retry later"
            ),
            error.retry_after_s or DEFAULT_RETRY_S,
        )
    if isinstance(error, ReadTimeoutError):
        return _unavailable(
            f"{error} (LIVEDEX_READ_TIMEOUT_S): narrow the request (a narrower `where`, fewer "
            "`candidates`, a smaller `limit`)",
            1.0,
        )
    if isinstance(error, RetryableError):
        return _unavailable("temporary failure: retry", error.retry_after_s or 1.0)
    if isinstance(error, NotFoundError):
        return problem_response(404, str(error))
    if isinstance(error, TenantRequiredError):
        return problem_response(403, str(error), kind="tenant-required")
    if isinstance(error, ForbiddenError):
        return problem_response(403, str(error))
    if isinstance(error, TenantDeletedError):
        return problem_response(
            403, "the tenant of this credential was deleted", kind="tenant-deleted"
        )
    if isinstance(error, ConflictError):
        return problem_response(409, str(error))
    if isinstance(error, RejectedError):
        return problem_response(422, str(error), kind=error.reason.replace("_", "-"))
    raise error


def _unavailable(detail: str, retry_after_s: float) -> Response:
    return problem_response(
        503, detail, headers={"Retry-After": str(max(1, math.ceil(retry_after_s)))}
    )


def add_exception_handlers(app: FastAPI) -> None:
    """Make the app respond to errors with problem details."""
    app.add_exception_handler(LivedexError, _on_error)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(ValidationError, _on_invalid)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)


async def _on_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, LivedexError)
    if isinstance(exc, RetryableError):
        log.warning("request %s: %s", request.state.request_id, exc)
    if isinstance(exc, OutageError) and exc.component == "database":
        request.app.state.services.health(exc.component, exc.cause)
    return problem_for_error(exc)


_DETAILS = {
    404: "no such path: /openapi.json lists all paths",
    405: "this path does not support this method: /openapi.json lists its methods",
}


async def _on_http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    detail = (
        exc.detail
        if exc.detail != HTTPStatus(exc.status_code).phrase
        else _DETAILS.get(exc.status_code, exc.detail)
    )
    headers = {"Allow": _methods_here(request)} if exc.status_code == 405 else exc.headers
    if exc.status_code == 405 and request.method == "OPTIONS":
        return Response(status_code=204, headers=headers)
    return problem_response(
        exc.status_code,
        detail,
        kind="invalid-request" if exc.status_code == 422 else "",
        headers=headers,
    )


def _methods_here(request: Request) -> str:
    """Return all methods of a path; several routes may share the path."""
    every = [
        *request.app.router.routes,
        *(route for router in request.app.state.routers for route in router.routes),
    ]
    routes = [
        route
        for route in every
        if getattr(route, "methods", None) and route.matches(request.scope)[0] is not Match.NONE
    ]
    methods = {"OPTIONS", *(method for route in routes for method in route.methods)}
    return ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))


async def _on_invalid(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError | ValidationError)
    return validation_problem(add_field_suggestions(exc.errors(), request))


async def _on_disconnect(request: Request, exc: Exception) -> Response:
    return problem_response(400, "the request ended before its body did")


class InvalidField(BaseModel):
    """An invalid field of a request."""

    pointer: str = Field(description="JSON pointer to the field")
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[InvalidField] = Field(
        default_factory=list, description="invalid fields of a request that fails validation"
    )


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route with these error statuses."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": _SAID[status],
            "content": {"application/problem+json": {"schema": schema}},
        }
        for status in statuses
    }


_SAID = {
    400: "The request is not valid HTTP, or its path and query are too long",
    401: "The credential is invalid",
    403: "A credential is needed, or the credential does not permit this",
    404: "Not found",
    409: "Already exists, or conflicts with existing data",
    408: "The body did not arrive in time",
    413: "The body is too large",
    415: "The media type is not supported, or the body is compressed (Content-Encoding)",
    422: "The request is invalid",
    429: "The credential exceeds its rate limit; see Retry-After",
    503: "A dependency is unavailable; see Retry-After",
}
