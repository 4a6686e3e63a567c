"""The HTTP protocol of uvicorn with the limits of `connection_limits`, and problem details for
invalid requests.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from livedex.pipeline.http.connection_limits import (
    ANONYMOUS_IDLE_TIMEOUT_S,
    AUTHENTICATED_IDLE_TIMEOUT_S,
    BACKLOG,
    BODY_GRACE_S,
    FIRST_BYTE_TIMEOUT_S,
    HEADER_TIMEOUT_S,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_PIPELINED_REQUESTS,
    MIN_BODY_BYTES_PER_S,
    STALLED_RESPONSE_TIMEOUT_S,
    UNREAD_BODY_S,
    ConnectionLimiter,
    Phase,
    connection_limit,
)
from livedex.pipeline.http.problems import problem_response
from livedex.pipeline.http.request_middleware import SECURITY_HEADERS

MAX_REQUEST_TARGET_BYTES = 65_535
"""Of path and query together, the limit of the parser."""
_MOST_OVERHEAD = 1024 * 1024  # of a chunked body, besides 16 bytes for each byte of content

_log = logging.getLogger("livedex.wire")
_log.setLevel(logging.ERROR)  # invalid requests of clients are not logged

_REFUSALS = {
    400: "the request is not valid HTTP, or its path and query have more than "
    f"{MAX_REQUEST_TARGET_BYTES} bytes",
    408: "the request did not arrive in time: send it faster, or less at once",
    431: f"a request may have at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes in total",
    503: "too many open connections: retry later",
}
_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class _RefusedError(Exception):
    """The request exceeds a limit."""


class _LimitedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol on httptools, with limits."""

    limits: ConnectionLimiter

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.logger = _log
        self.phase: Phase = "idle"
        self.since = self.loop.time()
        self.address = ""
        self._is_new = True
        self._is_known = False
        self._refusal = 400
        self._head_bytes = self._head_count = self._raw_bytes = self._body_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or reject it if there are too many."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if not self.limits.enter(self):
            self._refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.limits.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes within the limits."""
        if self.transport.is_closing():
            return
        if self.phase == "idle":
            self._enter("head")
        was = self.phase
        self._raw_bytes += len(data)
        super().data_received(data)
        if self.transport is None or self.transport.is_closing():
            return
        if (
            was == self.phase == "head"
            and self._raw_bytes > MAX_REQUEST_TARGET_BYTES + MAX_HEADER_BYTES
        ):
            self._refuse(431)
        elif self.phase == "body" and self._raw_bytes > _MOST_OVERHEAD + 16 * self._body_bytes:
            self._refuse(400)
        elif len(self.pipeline) > MAX_PIPELINED_REQUESTS:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Record that the client reads the response too slowly."""
        self.since = self.loop.time()
        super().pause_writing()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._enter("head")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are ignored, because the caller is authenticated before the body.

        Raises:
            _RefusedError: the headers exceed a limit.
        """
        if self.phase == "body":
            return
        self._head_bytes += len(name) + len(value)
        self._head_count += 1
        if self._head_bytes > MAX_HEADER_BYTES or self._head_count > MAX_HEADERS:
            self._refusal = 431
            raise _RefusedError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request to the app, which may respond before the body has arrived."""
        self._enter("body")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        self._enter("idle" if self.cycle is None or self.cycle.response_complete else "answer")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        state = self.scope.get("state", {}) if self.scope else {}
        self._is_known = "caller" in state
        if self.phase == "answer":
            self._enter("idle")
        elif self.phase == "body":
            self.since = self.loop.time()
        super().on_response_complete()

    def overdue(self, now: float) -> bool:
        """Return whether the client exceeded the time limit of the phase."""
        if self.transport is None:
            return False
        took_s = now - self.since
        if self.flow.write_paused:
            return took_s > STALLED_RESPONSE_TIMEOUT_S
        if self.phase == "head":
            return took_s > HEADER_TIMEOUT_S and not self._response_pending
        if self.phase == "body":
            if self.cycle is not None and self.cycle.response_complete:
                return took_s > UNREAD_BODY_S
            if self.flow.read_paused:  # the server does not read: the client is not to blame
                self.since += 1.0
                return False
            return took_s > BODY_GRACE_S + self._body_bytes / MIN_BODY_BYTES_PER_S
        if self.phase == "idle":
            return took_s > (
                FIRST_BYTE_TIMEOUT_S
                if self._is_new
                else AUTHENTICATED_IDLE_TIMEOUT_S
                if self._is_known
                else ANONYMOUS_IDLE_TIMEOUT_S
            )
        return False

    @property
    def _response_pending(self) -> bool:
        """Return whether an earlier request still has no response."""
        return self.cycle is not None and not self.cycle.response_complete

    def end(self) -> None:
        """Send a timeout response if a request has begun without one, and close."""
        if self.transport is None or self.transport.is_closing():
            if self.transport is not None:
                self.transport.abort()
        elif (
            self.flow.write_paused
            or self.phase == "idle"
            or (self.phase == "head" and self._response_pending)
        ):
            self.transport.abort()
        else:
            self._refuse(408)

    def send_400_response(self, msg: str) -> None:
        """Reject an unreadable request and close: the start of the next request is unknown."""
        self._refuse(self._refusal)

    def _enter(self, phase: Phase) -> None:
        if phase == "head":
            self._is_new = False
            self._head_bytes = self._head_count = self._raw_bytes = self._body_bytes = 0
        if phase != self.phase:
            self.phase, self.since = phase, self.loop.time()

    def _refuse(self, status: int) -> None:
        if self.transport.is_closing():
            return
        if (
            self.cycle is not None
            and self.cycle.response_started
            and (self.phase == "body" or not self.cycle.response_complete)
        ):
            self.transport.abort()  # a response was sent, or is being sent
            return
        answer = problem_response(
            status, _REFUSALS[status], headers={"Retry-After": "2"} if status == 503 else None
        )
        headers = MutableHeaders(raw=answer.raw_headers)
        headers.update(SECURITY_HEADERS)
        headers.update({"X-Request-ID": uuid.uuid4().hex, "Connection": "close"})
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers.raw)
        head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\n".encode()
        self.transport.write(head + lines + b"\r\n" + bytes(answer.body))
        self.transport.close()


def server_config(app: ASGIApp, *, most: int | None = None) -> uvicorn.Config:
    """Return uvicorn's configuration for an app.

    Args:
        app: to serve.
        most: maximum number of connections; None: as many as the limit on open files permits.
    """
    limits = ConnectionLimiter(connection_limit() if most is None else most)
    return uvicorn.Config(
        app,
        http=type("Wire", (_LimitedHttpProtocol,), {"limits": limits}),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        backlog=BACKLOG,
        # no proxy headers: callers follow from credentials, limits from the connection's address
        proxy_headers=False,
        timeout_graceful_shutdown=5,
        # `connection_limits` ends idle connections
        timeout_keep_alive=int(AUTHENTICATED_IDLE_TIMEOUT_S) + 5,
        server_header=False,
        date_header=False,
    )
