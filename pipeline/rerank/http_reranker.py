"""Rerankers over HTTP: Cohere, Jina, Voyage, text-embeddings-inference, and compatible servers.

Sources: Cohere, "Rerank API (v2)"; Jina, "Reranker API"; Voyage, "Rerankers"; Hugging Face,
text-embeddings-inference, `POST /rerank`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import httpx
from pydantic import SecretStr

from livedex.pipeline.errors import OutageError, RetryableError
from livedex.pipeline.http.outbound_client import open_http_client
from livedex.pipeline.http.provider_address import parse_provider_key, parse_provider_url

RerankProtocol: TypeAlias = Literal["cohere", "jina", "voyage", "tei"]
URLS: dict[RerankProtocol, str | None] = {
    "cohere": "https://api.cohere.com",
    "jina": "https://api.jina.ai",
    "voyage": "https://api.voyageai.com",
    "tei": None,
}
_PATHS: dict[RerankProtocol, str] = {
    "cohere": "/v2/rerank",
    "jina": "/v1/rerank",
    "voyage": "/v1/rerank",
    "tei": "/rerank",
}
DEADLINE_S = 5.0
MAX_TEXT_CHARACTERS = 8_000
_MAX_ANSWER_BYTES = 4_000_000
_COMPONENT = "reranker"


class HttpReranker:
    """A reranker behind an HTTP API.

    Args:
        protocol: that the API speaks.
        model: as the provider names it; empty for a server with one model.
        url: of the API.
        api_key: empty where none is needed.
        deadline_s: for a whole answer.

    Raises:
        ConfigError: the URL is none, or no header can hold the key.
    """

    def __init__(
        self,
        protocol: RerankProtocol,
        model: str,
        *,
        url: str,
        api_key: SecretStr | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._protocol, self._model, self._deadline_s = protocol, model, deadline_s
        key = parse_provider_key(api_key, setting="LIVEDEX_RERANKER_API_KEY").get_secret_value()
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._url = _endpoint(url, _PATHS[protocol])
        self._http: httpx.AsyncClient | None = None

    @property
    def model_id(self) -> str:
        """See `Reranker`."""
        return f"{self._protocol}:{self._model}" if self._model else self._protocol

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker`.

        Raises:
            OutageError: the provider does not answer.
            RetryableError: the answer cannot be used.
        """
        if not texts:
            return []
        if self._http is None:
            self._http = open_http_client(self._url, headers=self._headers)
        host = httpx.URL(self._url).host
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await self._http.post(
                    self._url, json=self._body(query, texts), timeout=self._deadline_s
                )
        except (TimeoutError, httpx.TimeoutException) as exc:
            raise RetryableError(f"{host}: no answer within {self._deadline_s:g} s") from exc
        except httpx.RequestError as exc:
            raise OutageError(
                _COMPONENT, f"{host}: no answer ({type(exc).__name__}): check LIVEDEX_RERANKER_URL"
            ) from exc
        if not answer.is_success:
            raise OutageError(
                _COMPONENT,
                f"{host}: HTTP {answer.status_code}: check LIVEDEX_RERANKER and its key",
            )
        return self._scores(answer, len(texts))

    async def close(self) -> None:
        """See `Reranker`."""
        if self._http is not None:
            await self._http.aclose()

    def _body(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        cut = [text[:MAX_TEXT_CHARACTERS] for text in texts]
        if self._protocol == "tei":
            return {"query": query, "texts": cut, "raw_scores": False, "truncate": True}
        limit = "top_k" if self._protocol == "voyage" else "top_n"
        return {"model": self._model, "query": query, "documents": cut, limit: len(cut)}

    def _scores(self, answer: httpx.Response, count: int) -> list[float]:
        """Read an answer: each text once, with a finite score.

        Raises:
            OutageError: the answer is anything else.
        """
        problem = OutageError(_COMPONENT, "the reranker's answer does not fit the request")
        if len(answer.content) > _MAX_ANSWER_BYTES:
            raise problem
        try:
            found: Any = answer.json()
            if isinstance(found, dict):
                found = found["data" if "data" in found else "results"]
            scores: list[float | None] = [None] * count
            for item in found:
                index = item["index"]
                score = item["relevance_score"] if "relevance_score" in item else item["score"]
                if not isinstance(index, int) or not 0 <= index < count:
                    raise problem
                if isinstance(score, bool) or not math.isfinite(score) or scores[index] is not None:
                    raise problem
                scores[index] = float(score)
        except (ValueError, KeyError, TypeError) as exc:
            raise problem from exc
        if any(score is None for score in scores):
            raise problem
        return [score for score in scores if score is not None]


def _endpoint(url: str, path: str) -> str:
    found = parse_provider_url(url, setting="LIVEDEX_RERANKER_URL", example="http://host:8080")
    base = str(found).rstrip("/")
    return base if base.endswith("/rerank") else base + path
