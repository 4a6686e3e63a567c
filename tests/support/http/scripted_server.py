"""An HTTP server on loopback, in threads of its own, that answers as a test wants and can fail in
the middle of it.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it came.

    Attributes:
        path: with the query.
        headers: names in small letters.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What is sent for it.

    Attributes:
        missing_bytes: how much of the announced body is never sent.
        hang_up: close the connection without any answer.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    missing_bytes: int = 0
    hang_up: bool = False


class Loopback:
    """A server that runs from the start, and ends with the block.

    Attributes:
        port: of 127.0.0.1.
    """

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.port = int(server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ScriptedServer(Loopback):
    """The server.

    Attributes:
        address: "http://127.0.0.1:PORT".
    """

    def __init__(self) -> None:
        super().__init__(LoopbackServer(self, _Handler))
        self.address = f"http://127.0.0.1:{self.port}"

    def reply_to(self, request: HttpRequest) -> HttpResponse:
        """What is sent for a request; called by the threads of the connections."""
        raise NotImplementedError


class LoopbackServer(ThreadingHTTPServer):
    """Threads that answer for an owner, which they find as `server.owner`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or was killed, is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class QuietHandler(BaseHTTPRequestHandler):
    """Speaks HTTP/1.1 and writes no log."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _Handler(QuietHandler):
    def _handle(self) -> None:
        body = self.rfile.read(size := int(self.headers.get("content-length") or 0))
        if len(body) < size:
            raise ConnectionResetError("the client went away in the middle of its request")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(self.server.owner.reply_to(HttpRequest(self.command, self.path, headers, body)))

    def _send(self, reply: HttpResponse) -> None:
        with contextlib.suppress(OSError):
            if not reply.hang_up:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body[: len(reply.body) - reply.missing_bytes])
            if reply.hang_up or reply.missing_bytes:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle
