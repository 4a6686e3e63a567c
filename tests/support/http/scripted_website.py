"""A web server on loopback that answers as it is told to, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.http.scripted_server import Loopback, LoopbackServer, QuietHandler


@dataclass(frozen=True, slots=True)
class WebResponse:
    """What is answered.

    Attributes:
        body: bytes, or pieces that are sent one after another without a length.
        announced: the length that is said instead of the right one.
        headers: `etag` makes a request that knows it get a 304.
    """

    body: bytes | Callable[[], Iterable[bytes]] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    announced: int | None = None


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A request:

    `target` is path and query, names of headers are in lower case; `server_name` is what TLS was
    told.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    server_name: str | None


def redirect(location: str, status: int = 302) -> WebResponse:
    """An answer that leads elsewhere."""
    return WebResponse(status=status, headers={"location": location})


class WebServer(Loopback):
    """The server.

    Attributes:
        pages: by path and query; a function is called with the visit. What is not there is a 404.
        requests: in order of arrival.
        connections: accepted, whether or not a request came.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._lock = threading.Lock()
        self.pages: dict[str, WebResponse | Callable[[WebRequest], WebResponse]] = {}
        self.requests: list[WebRequest] = []
        self.connections = 0
        self.names: list[str | None] = []
        super().__init__(_Server(self, tls))
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def asked(self, target: str) -> int:
        """How often a path was asked for."""
        return sum(visit.target == target for visit in self.requests)

    def respond(self, visit: WebRequest) -> WebResponse:
        """The answer to a visit."""
        with self._lock:
            self.requests.append(visit)
        found = self.pages.get(visit.target, WebResponse(status=404))
        page = found(visit) if callable(found) else found
        if (
            page.status == 200
            and "etag" in page.headers
            and visit.headers.get("if-none-match") == page.headers["etag"]
        ):
            return WebResponse(status=304, headers={"etag": page.headers["etag"]})
        return page


class _Server(LoopbackServer):
    def __init__(self, owner: WebServer, tls: ssl.SSLContext | None) -> None:
        super().__init__(owner, _Handler)
        if tls is not None:
            tls.sni_callback = lambda connection, name, context: owner.names.append(name)
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def get_request(self) -> Any:
        found = super().get_request()
        self.owner.connections += 1
        return found


class _Handler(QuietHandler):
    def do_GET(self) -> None:
        owner = self.server.owner
        name = owner.names[-1] if owner.names else None
        page = owner.respond(
            WebRequest(
                self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, name
            )
        )
        with contextlib.suppress(OSError):
            self.send_response(page.status)
            for header, value in page.headers.items():
                self.send_header(header, value.encode().decode("latin-1"))
            self._send(page)
        self.close_connection = True

    def _send(self, page: WebResponse) -> None:
        if isinstance(page.body, bytes):
            if page.status not in (204, 304):
                self.send_header(
                    "content-length",
                    str(len(page.body) if page.announced is None else page.announced),
                )
            self.end_headers()
            self.wfile.write(page.body)
            return
        if page.announced is not None:
            self.send_header("content-length", str(page.announced))
        self.send_header("connection", "close")
        self.end_headers()
        for piece in _pieces(page.body):
            self.wfile.write(piece)


def _pieces(body: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    yield from body()
