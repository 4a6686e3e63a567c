"""How requests are read off the wire, and what is answered to what is no HTTP: a problem, as everywhere."""

from __future__ import annotations

import uuid

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pipeline.api.edge import SECURITY
from pipeline.api.problems import problem

MOST_ADDRESS_BYTES = 65_535
"""Of path and query together; the parser takes no more."""


class _Wire(HttpToolsProtocol):
    """HTTP/1.1 by httptools, as uvicorn reads it."""

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, and close: where the next request would begin is not known."""
        answer = problem(400, f"this is no HTTP request, or its path and query have more than {MOST_ADDRESS_BYTES} bytes")
        headers = MutableHeaders(raw=answer.raw_headers)
        headers.update(SECURITY)
        headers.update({"X-Request-ID": uuid.uuid4().hex, "Connection": "close"})
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers.raw)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + lines + b"\r\n" + bytes(answer.body))
        self.transport.close()


def on_wire(app: ASGIApp) -> uvicorn.Config:
    """How an app is served."""
    return uvicorn.Config(
        app,
        http=_Wire,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=5,
        timeout_keep_alive=75,  # longer than clients and proxies keep a connection: what is sent while we close it gets no answer
        server_header=False,
        date_header=False,
    )
