"""Request bodies: JSON read strictly, up to a limit.

Strictly: UTF-8, no NaN, no lone surrogates, no nesting that could exhaust the stack; anything else
is no JSON (422). A body must say that it is JSON (415): a web page cannot make a browser send such
a one to another site without asking that site first. It comes as it is, and not compressed (415):
how much a few bytes become is known only once they are unpacked.
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
"""Larger bodies are parsed beside the loop."""
_MOST_VALUES = 50_000
_MOST_ITEMS = 4_096


async def read_limited(request: Request, most_bytes: int) -> bytes:
    """The whole body of a request.

    Raises:
        HTTPException: 413, more than `most_bytes`; the rest is not read.
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
        raise body_too_large(most_bytes)
    return b"".join(parts)


def body_too_large(most_bytes: int) -> HTTPException:
    """Return the refusal of a body above a limit."""
    return HTTPException(413, f"a body has at most {most_bytes} bytes here: send less at once")


def content_length(request: Request) -> int | None:
    """How long a body says it is; None where it does not, or says nonsense."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None


def media_type(request: Request) -> str:
    """What the body says it is, without parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Whether a media type is JSON, or something written in it."""
    return media == "application/json" or (
        media.startswith("application/") and media.endswith("+json")
    )


def require_json(request: Request) -> None:
    """Go on only with a body that says it is JSON.

    Raises:
        HTTPException: 415, it does not.
    """
    if not is_json(media_type(request)):
        raise HTTPException(415, "a body is JSON and says so: send Content-Type: application/json")


def require_uncompressed(request: Request) -> None:
    """Go on only with a body that is sent as it is.

    Raises:
        HTTPException: 415, it is compressed, or says so.
    """
    said = ",".join(request.headers.getlist("content-encoding"))
    if any(coding.strip().lower() not in ("", "identity") for coding in said.split(",")):
        raise HTTPException(
            415,
            "a body is not compressed here: send it as it is, without Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )


class StrictRequest(Request):
    """A request whose body is bounded, and whose JSON is read strictly."""

    async def body(self) -> bytes:
        """The whole body; see `read_bounded`."""
        if not hasattr(self, "_body"):
            self._body = await read_limited(self, MAX_BODY_BYTES)
        return self._body

    async def json(self) -> Any:
        """The body's value.

        Raises:
            json.JSONDecodeError: it is none.
            HTTPException: 422, it holds more values than any request needs.
        """
        raw = await self.body()
        return (
            parse_limited_json(raw)
            if len(raw) <= MAX_INLINE_PARSE_BYTES
            else await in_thread(parse_limited_json, raw)
        )


def parse_limited_json(raw: bytes) -> Any:
    """Return the value of a body, also behind a byte-order mark.

    Raises:
        json.JSONDecodeError: it is none.
        HTTPException: 422, it holds more values than any request needs.
    """
    why = (
        f"a body holds at most {_MOST_VALUES} values here"
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
        """The handler, given a `StrictRequest`."""
        handle = super().get_route_handler()

        check = authentication_of(self.dependant)

        async def strictly(request: Request) -> Response:
            if check is not None:
                await check(request)
            require_json(request)
            require_uncompressed(request)
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly
