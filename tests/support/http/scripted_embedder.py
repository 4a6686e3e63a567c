"""An embedding server on loopback that speaks OpenAI's protocol, counts what it answers, and fails
as it is told to.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from tests.support.http.scripted_server import HttpRequest, HttpResponse, ScriptedServer

MIN_DOCUMENT_CHARACTERS = 60
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


CLOSED_CONNECTION = Reply(hang_up=True)
Answer = Callable[[list[str], int], Reply | None]


class EmbeddingServer(ScriptedServer):
    """A server in threads of its own.

    Attributes:
        url: its base URL.
        requests: the body of each request, in order of arrival.
        headers: the headers of each request, names in lower case.
        arrived: the time of the monotonic clock of each.
        answered: every text that was answered with a vector.
        answer: called with (texts, number of the request from 0); None gives vectors.
        delay_s: waited before each answer.
        tokens_of: counts the tokens of a text; None: answers name no tokens.
        counted_tokens: that answers named.
    """

    def __init__(self, dimensions: int = 32) -> None:
        self._vectors = FakeEmbedder(dimensions)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.arrived: list[float] = []
        self.answered: list[str] = []
        self.answer: Answer = lambda texts, number: None
        self.delay_s = 0.0
        self.tokens_of: Callable[[str], int] | None = None
        self.counted_tokens = 0
        super().__init__()
        self.url = f"{self.address}/v1"

    @property
    def sent(self) -> list[list[str]]:
        """The texts of each request."""
        return [request["input"] for request in self.requests]

    @property
    def embedded_documents(self) -> list[str]:
        """The documents' texts that were answered with a vector."""
        return [text for text in self.answered if len(text) >= MIN_DOCUMENT_CHARACTERS]

    def vector(self, text: str) -> np.ndarray:
        """The vector of a text, as it is answered."""
        return self._vectors.vector(text)

    def data(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """The items of a right answer."""
        return [
            {"object": "embedding", "index": i, "embedding": [float(x) for x in self.vector(text)]}
            for i, text in enumerate(texts)
        ]

    def reply_to(self, request: HttpRequest) -> HttpResponse:
        reply = self.respond(
            {**json.loads(request.body), "path": request.path}, dict(request.headers)
        )
        raw = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        return HttpResponse(
            reply.status,
            raw,
            {"content-type": "application/json", **reply.headers},
            reply.missing_bytes,
            reply.hang_up,
        )

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
        answer = {"object": "list", "model": body["model"], "data": self.data(texts)}
        if self.tokens_of is not None:
            tokens = sum(map(self.tokens_of, texts))
            answer["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
            with self._lock:
                self.counted_tokens += tokens
        return Reply(body=answer)
