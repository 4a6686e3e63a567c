"""ASGI middleware of the API: request ids, security headers, allowed hosts, metrics and unexpected
errors. It is plain ASGI for speed: every search passes through it.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Coroutine
from typing import Any, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.authentication import Admission
from livedex.pipeline.http.problems import internal_error, problem_response
from livedex.pipeline.http.request_path import decode_path
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import metered

log = logging.getLogger(__name__)

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Default headers of all responses, which are data of one caller and no pages."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_CLIENT_CLOSED_REQUEST = 499  # no response was sent; nginx uses the same number
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_HOST_NOT_ALLOWED = (
    "the host name of this request is not allowed: use a name in LIVEDEX_ALLOWED_HOSTS, or add it"
)


class RequestMiddleware:
    """Adds request ids and response headers, decodes paths, counts requests, and responds to
    unexpected errors.

    The id is the caller's `X-Request-ID` if it has at most 128 letters, digits and `._:-`. Paths
    are not normalized: a document may have the id `a//b/../c%2F`.

    Args:
        app: the next ASGI app.
        hosts: allowed host names; None: any.
        metrics: counts requests by route; None: nothing is counted.
    """

    def __init__(
        self, app: ASGIApp, hosts: AllowedHosts | None = None, metrics: Metrics | None = None
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = hosts if hosts is not None and hosts.is_set else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; other scopes pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(Headers(scope=scope))
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        sender = _HeaderSender(send, request_id, state)
        begin, routed = time.perf_counter(), scope
        try:
            rejection = self._rejection(scope)
            if rejection is not None:
                await rejection(scope, receive, sender)
            else:
                if scope["method"] == "HEAD":  # the server leaves the body out
                    routed = {**scope, "method": "GET"}
                call = self._app(routed, receive, sender)
                await metered(cast(Coroutine[Any, Any, None], call))
        except Exception:
            log.exception("request %s: %s failed", request_id, scope["method"])
            if sender.status:
                raise
            await internal_error(request_id)(scope, receive, sender)
        finally:
            if admission := _admission(state):
                admission.release()
            took_s = time.perf_counter() - begin
            if self._metrics is not None:
                self._metrics.count_request(
                    _route(routed),
                    scope["method"],
                    sender.status or _CLIENT_CLOSED_REQUEST,
                    took_s,
                )
            _log_request(scope, request_id, sender.status, took_s)

    def _rejection(self, scope: Scope) -> Response | None:
        """Decode the path, and return the response to a request that the app must not see."""
        if not decode_path(scope):
            return problem_response(404, "the path is not valid UTF-8")
        if (
            self._hosts is not None
            and scope["path"] not in _PROBES
            and not self._hosts.allow(Headers(scope=scope))
        ):
            return problem_response(403, _HOST_NOT_ALLOWED)
        return None


class _HeaderSender:
    """Sends a response with the headers of all responses.

    Attributes:
        status: of the response; 0 until it begins.
    """

    def __init__(self, send: Send, request_id: str, state: dict[str, Any]) -> None:
        self._send = send
        self._request_id = request_id
        self._state = state
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self._request_id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if admission := _admission(self._state):
                for name, value in admission.headers.items():
                    headers.setdefault(name, value)
        await self._send(message)


def _log_request(scope: Scope, request_id: str, status: int, took_s: float) -> None:
    if log.isEnabledFor(logging.DEBUG):
        path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
        log.debug("%s %s %s %d %.1f ms", request_id, scope["method"], path, status, took_s * 1000)


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _route(scope: Scope) -> str:
    """Return the name of the matched route, such as `get_document`; `other` without one."""
    return str(getattr(scope.get("route"), "name", None) or "other")


def _admission(state: dict[str, Any]) -> Admission | None:
    """Return the admission of the request; None: nothing is limited, or it was rejected."""
    return state.get("admission")
