"""Request bodies: strict JSON up to a size limit.

Strict: UTF-8, no NaN, no lone surrogates, no nesting that could exhaust the stack; otherwise 422.
The Content-Type must be JSON (415), because browsers send other types across sites without a CORS
preflight. Compressed bodies are rejected (415), because their size is unknown until they are
decompressed.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from livedex.pipeline.events.json_budget import exceeds_value_limit, oversize_reason
from livedex.pipeline.http.authentication import authentication_of
from livedex.pipeline.runtime.tenant_shares import in_thread

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_INLINE_PARSE_BYTES = 256 * 1024
"""Larger bodies are parsed in a thread."""
_MOST_VALUES = 50_000
_MOST_ITEMS = 4_096


async def read_limited(request: Request, most_bytes: int) -> bytes:
    """Return the whole body of a request.

    Args:
        request: to read.
        most_bytes: maximum size.

    Raises:
        BodyTooLargeError: the body is larger; the rest is not read.
    """
    parts: list[bytes] = []
    size = content_length(request) or 0
    if size <= most_bytes:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > most_bytes:
                break
            parts.append(part)
    if size > most_bytes:
        raise BodyTooLargeError(most_bytes)
    return b"".join(parts)


class BodyTooLargeError(HTTPException):
    """A body above a limit (HTTP 413).

    Args:
        most_bytes: the limit.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(413, f"a body may have at most {most_bytes} bytes: send less at once")


def content_length(request: Request) -> int | None:
    """Return the Content-Length of a request; None: missing or invalid."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None


def media_type(request: Request) -> str:
    """Return the media type of a body, without parameters and in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Return whether a media type is JSON or based on it (`+json`)."""
    return media == "application/json" or (
        media.startswith("application/") and media.endswith("+json")
    )


def require_json(request: Request) -> None:
    """Check that the Content-Type is JSON.

    Args:
        request: to check.

    Raises:
        HTTPException: 415, it is not.
    """
    if not is_json(media_type(request)):
        raise HTTPException(415, "the body must be JSON: send Content-Type: application/json")


def require_uncompressed(request: Request) -> None:
    """Check that the body is not compressed.

    Args:
        request: to check.

    Raises:
        HTTPException: 415, the request has a Content-Encoding.
    """
    said = ",".join(request.headers.getlist("content-encoding"))
    if any(coding.strip().lower() not in ("", "identity") for coding in said.split(",")):
        raise HTTPException(
            415,
            "compressed bodies are not supported: send the body without Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )


class StrictRequest(Request):
    """A request with a size limit and strict JSON."""

    async def body(self) -> bytes:
        """Return the whole body; see `read_limited`."""
        if not hasattr(self, "_body"):
            self._body = await read_limited(self, MAX_BODY_BYTES)
        return self._body

    async def json(self) -> Any:
        """Return the JSON value of the body.

        Raises:
            json.JSONDecodeError: it is not valid JSON.
            HTTPException: 422, it has too many values.
        """
        raw = await self.body()
        return (
            parse_limited_json(raw)
            if len(raw) <= MAX_INLINE_PARSE_BYTES
            else await in_thread(parse_limited_json, raw)
        )


def parse_limited_json(raw: bytes) -> Any:
    """Return the JSON value of a body; a byte-order mark is ignored.

    Args:
        raw: the body.

    Raises:
        json.JSONDecodeError: it is not valid JSON.
        HTTPException: 422, it has too many values.
    """
    why = (
        f"a body may have at most {_MOST_VALUES} values"
        if exceeds_value_limit(raw, _MOST_VALUES)
        else None
    )
    value = None if why else orjson.loads(raw.removeprefix(codecs.BOM_UTF8))
    if why := why or oversize_reason(value, _MOST_ITEMS):
        raise HTTPException(422, why)
    return value


class StrictRoute(APIRoute):
    """A route that authenticates before it reads the body, and then reads it strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, called with a `StrictRequest`."""
        handle = super().get_route_handler()

        check = authentication_of(self.dependant)

        async def strictly(request: Request) -> Response:
            if check is not None:
                await check(request)
            require_json(request)
            require_uncompressed(request)
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly
