"""Embed texts by the OpenAI protocol: OpenAI, Ollama, vLLM, LM Studio and other servers.

Source: OpenAI's API reference, "Create embeddings": 2,048 texts and 300,000 tokens in a request,
8,192 tokens in a text. The limits here are in characters: a token has at least one in practice
(Chinese), and four in English.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import datetime

import httpx
from pydantic import SecretStr

from livedex.pipeline.embedding.embedder import EmbedLimits, TextKind, Vectors, valid_unicode
from livedex.pipeline.embedding.openai_response import parse_embeddings_response
from livedex.pipeline.embedding.provider_errors import provider_error
from livedex.pipeline.embedding.vectors import unit_vectors
from livedex.pipeline.errors import RetryableError
from livedex.pipeline.http.outbound_client import open_http_client
from livedex.pipeline.http.provider_address import parse_provider_key, parse_provider_url
from livedex.pipeline.runtime.clock import utc_now

OPENAI_URL = "https://api.openai.com/v1"
OLLAMA_URL = "http://localhost:11434/v1"
_READ_S: dict[TextKind, float] = {"document": 60.0, "query": 10.0}
_WHOLE_S: dict[TextKind, float] = {"document": 180.0, "query": 15.0}
_CONNECT_S = 5.0
_SHORTENABLE = "text-embedding-3"


class OpenAIEmbedder:
    """Sends `POST {url}/embeddings`.

    Args:
        model: its name at the provider.
        url: of the API with its version: `https://api.openai.com/v1`, or of a compatible server.
        api_key: sent as a bearer token; None: no key.
        dimensions: configured length; sent only to models that can shorten their vectors
            (`text-embedding-3-…`).
        provider: first part of the name of the vector space.
        limits: the bounds of one request.
        now: returns the present time, aware; for a Retry-After date.

    Proxies of the environment are used, but never for a server on this machine.

    Raises:
        ConfigError: invalid URL, or characters in the key that a header cannot contain.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str,
        api_key: SecretStr | None = None,
        dimensions: int | None = None,
        provider: str = "openai",
        limits: EmbedLimits | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._model, self._provider, self._dimensions, self._now = model, provider, dimensions, now
        self._url = _endpoint(url)
        self._limits = limits or EmbedLimits()
        self._api_key = parse_provider_key(api_key, setting="LIVEDEX_EMBEDDER_API_KEY")
        self._http: httpx.AsyncClient | None = None

    @property
    def model_id(self) -> str:
        """Return the name of the vector space."""
        return f"{self._provider}:{self._model}"

    @property
    def dimensions(self) -> int | None:
        """Return the length of a vector, as configured or first returned."""
        return self._dimensions

    @property
    def limits(self) -> EmbedLimits:
        """Return the bounds of a request."""
        return self._limits

    async def embed(self, texts: Sequence[str], *, kind: TextKind) -> Vectors:
        """Embed texts; see `Embedder.embed`.

        All vectors of a response have the same length. The caller compares it with the configured
        one, and reports both at the start.

        Args:
            texts: n texts within the limits, n >= 1.
            kind: decides about the timeout.
        """
        body = await self._post([valid_unicode(text) for text in texts], kind)
        vectors = unit_vectors(parse_embeddings_response(body, len(texts), texts), len(texts), None)
        if self._dimensions is None:
            self._dimensions = vectors.shape[1]
        return vectors

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def _post(self, texts: list[str], kind: TextKind) -> bytes:
        timeout = httpx.Timeout(30.0, connect=_CONNECT_S, read=_READ_S[kind])
        try:
            async with asyncio.timeout(_WHOLE_S[kind]):
                answer = await self._client().post(
                    self._url, content=self._request(texts), timeout=timeout
                )
        except TimeoutError as exc:
            raise RetryableError(
                f"{self._place()}: no whole answer in {_WHOLE_S[kind]:.0f} s"
            ) from exc
        except httpx.RequestError as exc:
            raise RetryableError(f"{self._place()}: no answer ({type(exc).__name__})") from exc
        if answer.is_success:
            return answer.content
        key = self._api_key.get_secret_value()
        raise provider_error(
            answer.status_code,
            answer.headers,
            answer.content,
            now=self._now(),
            texts=texts,
            secret=key,
        )

    def _request(self, texts: list[str]) -> str:
        request: dict[str, object] = {
            "model": self._model,
            "input": texts,
            "encoding_format": "float",
        }
        if self._dimensions is not None and self._model.startswith(_SHORTENABLE):
            request["dimensions"] = self._dimensions
        return json.dumps(request)

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            headers = {"content-type": "application/json", "accept": "application/json"}
            if self._api_key.get_secret_value():
                headers["authorization"] = f"Bearer {self._api_key.get_secret_value()}"
            limits = httpx.Limits(
                max_connections=self._limits.concurrency + 32,
                max_keepalive_connections=self._limits.concurrency + 4,
            )
            self._http = open_http_client(str(self._url), headers=headers, limits=limits)
        return self._http

    def _place(self) -> str:
        """Return scheme and host of the URL, without possible secrets."""
        return f"{self._url.scheme}://{self._url.netloc.decode('ascii', 'replace')}"


def _endpoint(url: str) -> httpx.URL:
    base = parse_provider_url(
        url, setting="LIVEDEX_EMBEDDER_URL", example="http://localhost:8080/v1"
    )
    path = base.path.rstrip("/")
    return base.copy_with(path=path if path.endswith("/embeddings") else f"{path}/embeddings")
