"""The edge of the API: what happens to every request before and after the app, as plain ASGI since it is on the path of every search."""

from __future__ import annotations

import logging
import time
import uuid

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipeline.api.paths import read_path
from pipeline.api.problems import problem, unexpected

log = logging.getLogger(__name__)


class Edge:
    """Gives each request an id, reads its path to the letter, and answers what nobody foresaw.

    Nothing in a path is normalised: a document may be called `a//b/../c%2F`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; other scopes pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        begin, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        try:
            if read_path(scope):
                await self._app(scope, receive, send_with_id)
            else:
                await problem(404, "the path is no UTF-8, so nothing is called so")(scope, receive, send_with_id)
        except Exception:
            log.exception("request %s: %s failed", request_id, scope["method"])
            if status:
                raise
            await unexpected(request_id)(scope, receive, send_with_id)
        finally:
            if log.isEnabledFor(logging.DEBUG):
                path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
                log.debug("%s %s %s %d %.1f ms", request_id, scope["method"], path, status, (time.perf_counter() - begin) * 1000)
