"""The edge of the API: what happens to every request before and after the app, as plain ASGI since
it is on the path of every search.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Coroutine
from typing import Any, cast

from starlette.datastructures import Headers, MutableHeaders
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
"""On every answer that does not say otherwise: answers are data of one caller, never a page, never
to be shown in one.
"""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_CLIENT_CLOSED_REQUEST = 499  # no answer was sent; the number is nginx's
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_HOST_NOT_ALLOWED = (
    "this service is not called by the host name of this request: LIVEDEX_ALLOWED_HOSTS lists "
    "its names"
)


class RequestMiddleware:
    """Gives each request an id and each answer its headers, reads paths to the letter, counts
    requests, and answers unforeseen errors.

    The id is the caller's `X-Request-ID` if it has at most 128 letters, digits and `._:-`.
    Nothing in a path is normalised: a document may be called `a//b/../c%2F`.

    Args:
        hosts: names that requests may carry; None: any.
        metrics: where requests are counted by route; None: nowhere.
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
        begin, status, routed = time.perf_counter(), 0, scope

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                for name, value in (
                    admission.headers if (admission := _admission(state)) else {}
                ).items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            if not decode_path(scope):
                await problem_response(404, "the path is no UTF-8, so nothing is called so")(
                    scope, receive, send_with_id
                )
            elif (
                self._hosts is not None
                and scope["path"] not in _PROBES
                and not self._hosts.allow(Headers(scope=scope))
            ):
                await problem_response(403, _HOST_NOT_ALLOWED)(scope, receive, send_with_id)
            else:
                if scope["method"] == "HEAD":  # the server leaves the body out
                    routed = {**scope, "method": "GET"}
                call = self._app(routed, receive, send_with_id)
                await metered(cast(Coroutine[Any, Any, None], call))
        except Exception:
            log.exception("request %s: %s failed", request_id, scope["method"])
            if status:
                raise
            await internal_error(request_id)(scope, receive, send_with_id)
        finally:
            if admission := _admission(state):
                admission.release()
            if self._metrics is not None:
                took_s = time.perf_counter() - begin
                self._metrics.count_request(
                    _route(routed), scope["method"], status or _CLIENT_CLOSED_REQUEST, took_s
                )
            if log.isEnabledFor(logging.DEBUG):
                path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
                log.debug(
                    "%s %s %s %d %.1f ms",
                    request_id,
                    scope["method"],
                    path,
                    status,
                    (time.perf_counter() - begin) * 1000,
                )


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _route(scope: Scope) -> str:
    """Return the name of the route that answered, such as `get_document`; `other` without one."""
    return str(getattr(scope.get("route"), "name", None) or "other")


def _admission(state: dict[str, Any]) -> Admission | None:
    """How the request was let in; None where nothing is limited, or it was not."""
    return state.get("admission")
