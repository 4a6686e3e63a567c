"""An embedding server on loopback that speaks OpenAI's protocol, counts what it answers, and fails as it is told to."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from pipeline.embedding.counting import CountingEmbedder

PROBES_ARE_SHORTER = 60
"""Documents' texts in tests have at least so many characters; probes and queries have less."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered instead of vectors.

    Attributes:
        body: JSON, or bytes as they are.
        missing_bytes: how much of the announced body is never sent.
        hang_up: close the connection without any answer.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    missing_bytes: int = 0
    hang_up: bool = False


HANG_UP = Reply(hang_up=True)
Answer = Callable[[list[str], int], Reply | None]


class ScriptedEmbedder:
    """A server in threads of its own.

    Attributes:
        url: its base URL.
        requests: the body of each request, in order of arrival.
        headers: the headers of each request, names in lower case.
        arrived: the time of the monotonic clock of each.
        answered: every text that was answered with a vector.
        answer: called with (texts, number of the request from 0); None gives vectors.
        delay_s: waited before each answer.
    """

    def __init__(self, dimensions: int = 32) -> None:
        self._vectors = CountingEmbedder(dimensions)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.arrived: list[float] = []
        self.answered: list[str] = []
        self.answer: Answer = lambda texts, number: None
        self.delay_s = 0.0
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> ScriptedEmbedder:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def sent(self) -> list[list[str]]:
        """The texts of each request."""
        return [request["input"] for request in self.requests]

    @property
    def paid(self) -> list[str]:
        """The documents' texts that were answered with a vector."""
        return [text for text in self.answered if len(text) >= PROBES_ARE_SHORTER]

    def vector(self, text: str) -> np.ndarray:
        """The vector of a text, as it is answered."""
        return self._vectors.vector(text)

    def data(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """The items of a right answer."""
        return [{"object": "embedding", "index": i, "embedding": [float(x) for x in self.vector(text)]} for i, text in enumerate(texts)]

    def respond(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        """The reply to a request."""
        texts = list(body["input"])
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.headers.append(headers)
            self.arrived.append(time.monotonic())
        if self.delay_s:
            time.sleep(self.delay_s)
        reply = self.answer(texts, number)
        if reply is not None:
            return reply
        with self._lock:
            self.answered += texts
        return Reply(body={"object": "list", "model": body["model"], "data": self.data(texts)})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: ScriptedEmbedder) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        sent = self.rfile.read(size := int(self.headers["content-length"]))
        if len(sent) < size:
            raise ConnectionResetError("the client went away in the middle of its request")
        body = json.loads(sent)
        reply = self.server.owner.respond({**body, "path": self.path}, {name.lower(): value for name, value in self.headers.items()})
        raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        with contextlib.suppress(OSError):
            if not reply.hang_up:
                self.send_response(reply.status)
                for name, value in {"content-type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw[: len(raw) - reply.missing_bytes])
            if reply.hang_up or reply.missing_bytes:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
