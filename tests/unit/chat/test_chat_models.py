"""Chat models speak the protocols of their providers, and map what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import SecretStr

from livedex.pipeline.chat.chat_model import ChatMessage, ChatModel
from livedex.pipeline.chat.chat_model_factory import build_chat_model
from livedex.pipeline.errors import ConfigError, OutageError, RejectedError, RetryableError
from tests.support.http.free_port import free_port
from tests.support.http.scripted_server import HttpRequest, HttpResponse, ScriptedServer

MESSAGES = [
    ChatMessage("system", "rules"),
    ChatMessage("user", "first"),
    ChatMessage("assistant", "reply"),
    ChatMessage("user", "last"),
]
KEY = "sk-test-1"

EVENTS: dict[str, Sequence[dict[str, Any]]] = {
    "openai": [
        {"choices": [{"delta": {"role": "assistant"}}]},
        {"choices": [{"delta": {"content": "Yes"}}]},
        {"choices": [{"delta": {"content": " [1]."}}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Yes"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": " [1]."}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "Yes"}]}}]},
        {
            "candidates": [{"content": {"parts": [{"text": " [1]"}, {"text": "."}]}}],
            "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3},
        },
    ],
}
EVENTS["ollama"] = EVENTS["openai"]


class ChatServer(ScriptedServer):
    """Answers with events, or as `respond_with` says; notes each request."""

    def __init__(self, events: Sequence[Any]) -> None:
        self.events, self.asked = events, list[HttpRequest]()
        self.respond_with: Callable[[], HttpResponse] | None = None
        super().__init__()

    def reply_to(self, request: HttpRequest) -> HttpResponse | None:
        self.asked.append(request)
        if self.respond_with is not None:
            return self.respond_with()
        lines = [f"event: x\ndata: {json.dumps(event)}\n\n" for event in self.events]
        body = ": comment\n\n" + "".join(lines) + "data: [DONE]\n\n"
        return HttpResponse(200, body.encode(), {"content-type": "text/event-stream"})


def model_of(kind: str, url: str) -> ChatModel:
    path = "/v1" if kind in ("openai", "ollama") else ""
    found = build_chat_model(f"{kind}:small", url=url + path, api_key=SecretStr(KEY + "\n"))
    assert found is not None
    return found


async def said_by(model: ChatModel) -> tuple[str, int | None, int | None]:
    text, given, answered = "", None, None
    try:
        async for chunk in model.stream(MESSAGES, 50):
            text += chunk.text
            given = given if chunk.input_tokens is None else chunk.input_tokens
            answered = answered if chunk.output_tokens is None else chunk.output_tokens
    finally:
        await model.close()
    return text, given, answered


@pytest.mark.parametrize("kind", EVENTS)
async def test_an_answer_is_read_piece_by_piece_with_its_tokens(kind: str) -> None:
    with ChatServer(EVENTS[kind]) as server:
        model = model_of(kind, server.address)
        assert model.model_id == f"{kind}:small"
        assert await said_by(model) == ("Yes [1].", 7, 3)
        [request] = server.asked
    body = json.loads(request.body)
    if kind in ("openai", "ollama"):
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert body["messages"] == [{"role": m.role, "content": m.content} for m in MESSAGES]
        assert (body["model"], body["stream"], body["max_tokens"]) == ("small", True, 50)
    elif kind == "anthropic":
        assert request.path == "/v1/messages" and request.headers["x-api-key"] == KEY
        assert body["system"] == "rules" and len(body["messages"]) == 3
        assert body["max_tokens"] == 50
    else:
        assert request.path == "/v1beta/models/small:streamGenerateContent?alt=sse"
        assert request.headers["x-goog-api-key"] == KEY
        assert body["systemInstruction"] == {"parts": [{"text": "rules"}]}
        assert [each["role"] for each in body["contents"]] == ["user", "model", "user"]


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, RejectedError),
        (401, OutageError),
        (404, OutageError),
        (429, RetryableError),
        (500, OutageError),
        (529, OutageError),
    ],
)
async def test_a_status_says_what_to_do(kind: str, status: int, error: type[Exception]) -> None:
    with ChatServer([]) as server:
        secret = b'{"error": {"message": "the text of a document"}}'
        server.respond_with = lambda: HttpResponse(status, secret, {"retry-after": "7"})
        with pytest.raises(error) as raised:
            await said_by(model_of(kind, server.address))
    assert "document" not in str(raised.value) and KEY not in str(raised.value)
    if status == 429:
        assert isinstance(raised.value, RetryableError) and raised.value.retry_after_s == 7


@pytest.mark.parametrize("events", [["text"], [{"error": {"message": "x"}}], [{"type": "error"}]])
async def test_an_error_within_the_stream_is_an_outage(events: list[Any]) -> None:
    with ChatServer(events) as server, pytest.raises(OutageError):
        await said_by(model_of("openai", server.address))


async def test_a_server_that_is_away_is_an_outage_that_names_the_setting() -> None:
    with pytest.raises(OutageError, match="LIVEDEX_CHAT_URL"):
        await said_by(model_of("openai", f"http://127.0.0.1:{free_port()}"))


@pytest.mark.parametrize(
    ("spec", "url", "key"),
    [
        ("openai", "http://x/v1", ""),
        ("openai:", "http://x/v1", ""),
        ("gpt:x", "http://x", ""),
        ("extractive:x", None, ""),
        ("openai:x", None, ""),
        ("gemini:x", None, ""),
        ("openai:x", "ftp://x", "k"),
        ("openai:x", "no url", "k"),
        ("openai:x", None, "k\u00fc"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(spec: str, url: str | None, key: str) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_CHAT"):
        build_chat_model(spec, url=url, api_key=SecretStr(key))


def test_without_a_model_answers_are_extractive() -> None:
    assert build_chat_model("extractive") is None
