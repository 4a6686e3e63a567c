"""An API as the target of an evaluation: keys, principals and odd answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from livedex.eval.search_target import HttpTarget, open_http_target
from livedex.pipeline.errors import ConfigError, LivedexError, OutageError, RejectedError
from livedex.pipeline.settings.settings import load_settings

Answer = Callable[[httpx.Request], httpx.Response]


def target(answer: Answer, principals: frozenset[str] | None = None) -> HttpTarget:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return HttpTarget("http://index", client, principals)


async def test_principals_are_sent() -> None:
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"hits": [], "degraded": []})

    await target(answer, frozenset({"b", "a"})).search({"query": "x"})
    await target(answer).search({"query": "x"})
    assert sent == [{"query": "x", "principals": ["a", "b"]}, {"query": "x"}]


@pytest.mark.parametrize(
    ("response", "error", "told"),
    [
        (httpx.Response(401), ConfigError, "LIVEDEX_KEY"),
        (httpx.Response(403), ConfigError, "LIVEDEX_KEY"),
        (httpx.Response(422, json={"detail": "limit is wrong"}), RejectedError, "limit is wrong"),
        (httpx.Response(503, text="busy"), RejectedError, "503"),
        (httpx.Response(200, text="<html>"), RejectedError, "no Livedex"),
        (httpx.Response(200, json={"hits": [{}]}), RejectedError, "no Livedex"),
        (httpx.Response(200, json={"hits": None}), RejectedError, "no Livedex"),
    ],
)
async def test_an_odd_answer_is_an_error_that_says_what_to_do(
    response: httpx.Response, error: type[LivedexError], told: str
) -> None:
    with pytest.raises(error, match=told):
        await target(lambda _: response).search({"query": "x"})


async def test_an_api_that_does_not_answer_is_an_outage() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with pytest.raises(OutageError, match="does not answer"):
        await target(refuse).search({"query": "x"})


async def test_chunks_of_a_deleted_document_are_none() -> None:
    assert await target(lambda _: httpx.Response(404)).chunks("a/b") == []


@pytest.mark.parametrize("url", ["index:8700", "ftp://index", "http://u:p@index", "http://"])
async def test_a_url_that_is_no_api_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--url must be like"):
        async with open_http_target(url, None):
            pass


async def test_a_key_with_control_characters_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIVEDEX_KEY", "secret\x01key")
    with pytest.raises(ConfigError) as raised:
        async with open_http_target("http://index", None):
            pass
    assert "LIVEDEX_KEY" in str(raised.value) and "secret" not in str(raised.value)


def test_the_key_of_commands_is_no_setting(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {"LIVEDEX_KEY": "x"})


async def test_a_request_that_is_rate_limited_is_retried() -> None:
    answers = [
        httpx.Response(429, headers={"retry-after": "0"}),
        httpx.Response(200, json={"hits": []}),
    ]
    assert (await target(lambda _: answers.pop(0)).search({"query": "x"}))["hits"] == []
    assert answers == []
