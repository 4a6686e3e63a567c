"""Request bodies: JSON read strictly, up to a limit.

Strictly: UTF-8, no NaN, no lone surrogates, no nesting that could exhaust the stack; anything else is no JSON (422). A body must say
that it is JSON (415): a web page cannot make a browser send such a one to another site without asking that site first.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MAX_BODY_BYTES = 4 * 1024 * 1024


class StrictRequest(Request):
    """A request whose body is bounded, and whose JSON is read strictly."""

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            HTTPException: 413, more than `MAX_BODY_BYTES`; the rest is not read.
        """
        if not hasattr(self, "_body"):
            said = self.headers.get("content-length", "")
            size = int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0
            parts: list[bytes] = []
            if size <= MAX_BODY_BYTES:
                size = 0
                async for part in self.stream():
                    size += len(part)
                    if size > MAX_BODY_BYTES:
                        break
                    parts.append(part)
            if size > MAX_BODY_BYTES:
                raise HTTPException(413, f"a body has at most {MAX_BODY_BYTES} bytes: send less at once")
            self._body = b"".join(parts)
        return self._body

    async def json(self) -> Any:
        """The body's value.

        Raises:
            json.JSONDecodeError: it is none.
        """
        return orjson.loads(await self.body())


class StrictRoute(APIRoute):
    """A route that reads its requests strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given a `StrictRequest`."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
                raise HTTPException(415, "a body is JSON and says so: send Content-Type: application/json")
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly
