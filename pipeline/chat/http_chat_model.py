"""Chat models over HTTP: three protocols, each a stream of server-sent events.

Sources: OpenAI, "Chat completions: streaming"; Anthropic, "Streaming messages"; Google,
"Generate content: streamGenerateContent".
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx
from pydantic import SecretStr

from livedex.pipeline.chat.chat_model import ChatChunk, ChatMessage
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.http.outbound_client import open_http_client
from livedex.pipeline.http.provider_address import parse_provider_key, parse_provider_url
from livedex.pipeline.http.retry_after import parse_retry_after_s
from livedex.pipeline.runtime.clock import utc_now

OPENAI_URL = "https://api.openai.com/v1"
OLLAMA_URL = "http://localhost:11434/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
GEMINI_URL = "https://generativelanguage.googleapis.com"
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
_MAX_ERROR_BYTES = 65_536
_COMPONENT = "chat"


class HttpChatModel(ABC):
    """A chat model behind an HTTP API.

    Args:
        model: as the provider names it.
        url: of the API.
        api_key: empty where none is needed.

    Raises:
        ConfigError: the URL is none, or the environment's proxy settings are wrong.
    """

    provider = ""

    def __init__(self, model: str, *, url: str, api_key: SecretStr | None = None) -> None:
        self._model = model
        key = parse_provider_key(api_key, setting="LIVEDEX_CHAT_API_KEY")
        self._key, self._url = key.get_secret_value(), _base_url(url)
        self._http: httpx.AsyncClient | None = None

    @property
    def model_id(self) -> str:
        """See `ChatModel`."""
        return f"{self.provider}:{self._model}"

    async def stream(
        self, messages: Sequence[ChatMessage], max_tokens: int
    ) -> AsyncIterator[ChatChunk]:
        """See `ChatModel`.

        Raises:
            OutageError: the provider does not answer.
            RetryableError: the provider asks for patience.
        """
        if self._http is None:
            self._http = open_http_client(self._url, headers=self._headers(), timeout=_TIMEOUT)
        request = self._http.build_request(
            "POST", self._url + self._path(), json=self._body(messages, max_tokens)
        )
        try:
            response = await self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise await self._error(response)
                async for event in _events(response):
                    yield self._chunk(event)
            finally:
                await response.aclose()
        except httpx.TimeoutException as exc:
            raise RetryableError(f"{self._host()}: no answer in time") from exc
        except httpx.RequestError as exc:
            raise OutageError(
                _COMPONENT,
                f"{self._host()}: no answer ({type(exc).__name__}): check LIVEDEX_CHAT_URL",
            ) from exc

    async def close(self) -> None:
        """See `ChatModel`."""
        if self._http is not None:
            await self._http.aclose()

    @abstractmethod
    def _path(self) -> str: ...

    @abstractmethod
    def _headers(self) -> dict[str, str]: ...

    @abstractmethod
    def _body(self, messages: Sequence[ChatMessage], max_tokens: int) -> dict[str, Any]: ...

    @abstractmethod
    def _chunk(self, event: Mapping[str, Any]) -> ChatChunk: ...

    def _host(self) -> str:
        return httpx.URL(self._url).host

    async def _error(self, response: httpx.Response) -> Exception:
        """Map a status to what the caller must do; the provider's message stays out of it."""
        read = 0
        async for part in response.aiter_raw():
            read += len(part)
            if read > _MAX_ERROR_BYTES:
                break
        status = f"{self._host()}: HTTP {response.status_code}"
        if response.status_code == 429 or response.status_code in (408, 425):
            after = response.headers.get("retry-after")
            wait_s = parse_retry_after_s(after, utc_now()) if after else None
            return RetryableError(f"{status}: too many requests", retry_after_s=wait_s)
        if response.status_code in (401, 402, 403, 404):
            return OutageError(
                _COMPONENT,
                f"{status}: check LIVEDEX_CHAT, LIVEDEX_CHAT_URL and LIVEDEX_CHAT_API_KEY",
            )
        if response.status_code >= 500:
            return OutageError(_COMPONENT, f"{status}: the provider has a problem")
        return RejectedError(f"{status}: the provider refuses the request", reason="chat_refused")


class OpenAIChatModel(HttpChatModel):
    """`POST {url}/chat/completions`: OpenAI, Ollama, vLLM, LM Studio, LiteLLM and others."""

    provider = "openai"

    def _path(self) -> str:
        return "/chat/completions"

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._key}"} if self._key else {}

    def _body(self, messages: Sequence[ChatMessage], max_tokens: int) -> dict[str, Any]:
        limit = "max_completion_tokens" if self._url == OPENAI_URL else "max_tokens"
        return {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            limit: max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _chunk(self, event: Mapping[str, Any]) -> ChatChunk:
        usage = event.get("usage") or {}
        choices = event.get("choices") or [{}]
        return ChatChunk(
            (choices[0].get("delta") or {}).get("content") or "",
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
        )


class OllamaChatModel(OpenAIChatModel):
    """Ollama's OpenAI-compatible API."""

    provider = "ollama"


class AnthropicChatModel(HttpChatModel):
    """`POST {url}/v1/messages`."""

    provider = "anthropic"

    def _path(self) -> str:
        return "/v1/messages"

    def _headers(self) -> dict[str, str]:
        return {"x-api-key": self._key, "anthropic-version": "2023-06-01"}

    def _body(self, messages: Sequence[ChatMessage], max_tokens: int) -> dict[str, Any]:
        return {
            "model": self._model,
            "system": "\n\n".join(m.content for m in messages if m.role == "system"),
            "messages": [
                {"role": m.role, "content": m.content} for m in messages if m.role != "system"
            ],
            "max_tokens": max_tokens,
            "stream": True,
        }

    def _chunk(self, event: Mapping[str, Any]) -> ChatChunk:
        started = (event.get("message") or {}).get("usage") or {}
        return ChatChunk(
            (event.get("delta") or {}).get("text") or "",
            started.get("input_tokens"),
            (event.get("usage") or {}).get("output_tokens"),
        )


class GeminiChatModel(HttpChatModel):
    """`POST {url}/v1beta/models/{model}:streamGenerateContent`."""

    provider = "gemini"

    def _path(self) -> str:
        return f"/v1beta/models/{self._model}:streamGenerateContent?alt=sse"

    def _headers(self) -> dict[str, str]:
        return {"x-goog-api-key": self._key}

    def _body(self, messages: Sequence[ChatMessage], max_tokens: int) -> dict[str, Any]:
        roles = {"user": "user", "assistant": "model"}
        system = [{"text": m.content} for m in messages if m.role == "system"]
        return {
            **({"systemInstruction": {"parts": system}} if system else {}),
            "contents": [
                {"role": roles[m.role], "parts": [{"text": m.content}]}
                for m in messages
                if m.role != "system"
            ],
            "generationConfig": {"maxOutputTokens": max_tokens},
        }

    def _chunk(self, event: Mapping[str, Any]) -> ChatChunk:
        usage = event.get("usageMetadata") or {}
        candidates = event.get("candidates") or [{}]
        parts = (candidates[0].get("content") or {}).get("parts") or []
        return ChatChunk(
            "".join(part.get("text") or "" for part in parts),
            usage.get("promptTokenCount"),
            usage.get("candidatesTokenCount"),
        )


async def _events(response: httpx.Response) -> AsyncIterator[Mapping[str, Any]]:
    """Read the JSON objects of a stream of server-sent events.

    Raises:
        OutageError: the provider sends something else, or an error in the middle of the stream.
    """
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        value = value.strip()
        if name != "data" or not value or value == "[DONE]":
            continue
        try:
            event = json.loads(value)
        except ValueError as exc:
            raise OutageError(_COMPONENT, "the answer is not a stream of JSON events") from exc
        if not isinstance(event, dict) or event.get("error") or event.get("type") == "error":
            raise OutageError(_COMPONENT, "the provider ended its answer with an error")
        yield event


def _base_url(url: str) -> str:
    found = parse_provider_url(url, setting="LIVEDEX_CHAT_URL", example="http://localhost:8080/v1")
    base = str(found).rstrip("/")
    return base.removesuffix("/chat/completions").removesuffix("/v1/messages")
