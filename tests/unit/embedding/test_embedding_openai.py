"""OpenAI's protocol, spoken with a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import time as real_time
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from livedex.pipeline.embedding.embedder import EmbedLimits
from livedex.pipeline.embedding.openai_embedder import OpenAIEmbedder
from livedex.pipeline.embedding.provider_errors import QuotaExhaustedError
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import (
    ConfigError,
    LivedexError,
    OutageError,
    RateLimitedError,
    RejectedError,
    RetryableError,
    TooLargeError,
)
from livedex.pipeline.runtime.clock import Clock
from tests.support.http.scripted_embedder import (
    CLOSED_CONNECTION,
    MIN_DOCUMENT_CHARACTERS,
    EmbeddingServer,
    Reply,
)
from tests.unit.embedding.asking import EmbeddingResult, collect_embeddings

Passages = Callable[[int], list[str]]
KEY = "sk-very-secret"


@pytest.fixture
async def embedder(server: EmbeddingServer) -> AsyncIterator[OpenAIEmbedder]:
    made = OpenAIEmbedder("check", url=server.url, api_key=SecretStr(KEY))
    yield made
    await made.close()


@pytest.fixture
async def service(server: EmbeddingServer) -> AsyncIterator[EmbeddingService]:
    """Its pauses take no time, unless the provider names one."""
    clock = Clock(uniform=lambda low, high: min(high, 0.02))
    made = EmbeddingService(
        OpenAIEmbedder("check", url=server.url, limits=EmbedLimits(max_texts=8, concurrency=4)),
        dimensions=32,
        clock=clock,
    )
    yield made
    await made.close()


def check(
    got: EmbeddingResult, texts: list[str], server: EmbeddingServer, *, but: tuple[int, ...] = ()
) -> None:
    assert got.outage is None
    assert sorted(got.vectors) == [n for n in range(len(texts)) if n not in but]
    assert all(
        np.allclose(vector, server.vector(texts[index]), atol=1e-5)
        for index, vector in got.vectors.items()
    )
    assert len(server.embedded_documents) == len(set(server.embedded_documents))


def first_documents(
    count: int, reply: Reply | Callable[[list[str]], Reply]
) -> Callable[[list[str], int], Reply | None]:
    """The first requests with documents' texts are answered so."""
    left = iter(range(count))

    def answer(texts: list[str], number: int) -> Reply | None:
        if len(texts[0]) < MIN_DOCUMENT_CHARACTERS or next(left, None) is None:
            return None
        return reply(texts) if callable(reply) else reply

    return answer


async def test_a_request_is_what_the_protocol_says(
    server: EmbeddingServer, embedder: OpenAIEmbedder
) -> None:
    vectors = await embedder.embed(
        ["one", "Grüße 漢字 😀", "lone \ud800 surrogate"], kind="document"
    )
    assert server.requests == [
        {
            "model": "check",
            "input": ["one", "Grüße 漢字 😀", "lone \ufffd surrogate"],
            "encoding_format": "float",
            "path": "/v1/embeddings",
        }
    ]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert vectors.shape == (3, 32)
    assert vectors.dtype == np.float32
    assert embedder.dimensions == 32
    assert embedder.model_id == "openai:check"


@pytest.mark.parametrize(
    ("model", "sent"), [("text-embedding-3-small", 32), ("nomic-embed-text", None)]
)
async def test_a_length_is_wished_for_only_from_models_that_can_shorten(
    server: EmbeddingServer, model: str, sent: int | None
) -> None:
    embedder = OpenAIEmbedder(model, url=server.url, dimensions=32)
    await embedder.embed(["one"], kind="query")
    await embedder.close()
    assert server.requests[0].get("dimensions") == sent
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize("suffix", ["", "/", "/embeddings", "/embeddings/"])
async def test_a_url_may_end_in_any_usual_way(server: EmbeddingServer, suffix: str) -> None:
    embedder = OpenAIEmbedder("check", url=server.url + suffix)
    await embedder.embed(["one"], kind="query")
    await embedder.close()
    assert server.requests[0]["path"] == "/v1/embeddings"


@pytest.mark.parametrize("key", ["k\n", " k\r\n"])
async def test_a_key_may_come_from_a_file_with_a_line_end(
    server: EmbeddingServer, key: str
) -> None:
    embedder = OpenAIEmbedder("check", url=server.url, api_key=SecretStr(key))
    await embedder.embed(["one"], kind="query")
    await embedder.close()
    assert server.headers[0]["authorization"] == "Bearer k"


@pytest.mark.parametrize("key", ["schlüssel", "k\x00", "k\nX-Other: 1", "“k”"])
def test_a_key_that_no_header_can_hold_is_refused_at_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_EMBEDDER_API_KEY") as caught:
        OpenAIEmbedder("check", url="http://localhost/v1", api_key=SecretStr(key))
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "ftp://localhost",
        "http://",
        "http://[::1",
        "/v1",
        "http://xn--/v1",
        "http://localhost:99999/v1",
    ],
)
def test_what_is_no_url_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_EMBEDDER_URL"):
        OpenAIEmbedder("check", url=url)


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, embedder: OpenAIEmbedder
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert (await embedder.embed(["one"], kind="query")).shape == (1, 32)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (CLOSED_CONNECTION, RetryableError),
        (Reply(body=b""), RetryableError),
        (Reply(body=b'{"data": []}'), RetryableError),
        (Reply(body=b"x" * 500, missing_bytes=100), RetryableError),
        (Reply(body=b"<html>fine</html>"), RetryableError),
        (Reply(body=b"not gzip", headers={"content-encoding": "gzip"}), RetryableError),
        (Reply(502, b"<html>bad gateway</html>", {"content-type": "text/html"}), RetryableError),
        (Reply(429, {"error": {"message": "slow"}}, {"Retry-After": "2"}), RateLimitedError),
        (Reply(429, {"error": {"code": "insufficient_quota"}}), QuotaExhaustedError),
        (Reply(401, {"error": {"message": f"Incorrect API key: {KEY}"}}), OutageError),
        (Reply(301, b"", {"location": "http://127.0.0.1:9/"}), OutageError),
        (Reply(413, b""), TooLargeError),
        (Reply(400, {"error": {"message": "invalid input: the document's words"}}), RejectedError),
    ],
)
async def test_an_answer_other_than_vectors_becomes_an_error_without_texts_or_keys(
    server: EmbeddingServer, embedder: OpenAIEmbedder, reply: Reply, kind: type[LivedexError]
) -> None:
    server.answer = lambda texts, number: reply
    with pytest.raises(kind) as caught:
        await embedder.embed(["the document's words"], kind="document")
    assert type(caught.value) is kind
    assert KEY not in str(caught.value)
    assert "words" not in str(caught.value)


async def test_nobody_listening_is_retryable_and_says_where() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    embedder = OpenAIEmbedder("check", url=f"http://user:pass@127.0.0.1:{port}/v1")
    with pytest.raises(RetryableError, match=f"http://127.0.0.1:{port}: no answer") as caught:
        await embedder.embed(["one"], kind="query")
    assert "pass" not in str(caught.value)
    await embedder.close()


def spoilt(
    change: Callable[[list[dict[str, Any]]], object],
) -> Callable[[EmbeddingServer], Callable[[list[str]], Reply]]:
    def made(server: EmbeddingServer) -> Callable[[list[str]], Reply]:
        def reply(texts: list[str]) -> Reply:
            items = server.data(texts)
            change(items)
            return Reply(body={"data": items})

        return reply

    return made


WRONG = {
    "one too few": spoilt(lambda items: items.pop()),
    "one too many": spoilt(
        lambda items: items.append({"index": len(items), "embedding": [1.0] * 32})
    ),
    "an index twice": spoilt(lambda items: items[-1].update(index=0)),
    "an index out of range": spoilt(lambda items: items[0].update(index=999)),
    "no index": spoilt(lambda items: items[0].pop("index")),
    "null": spoilt(lambda items: items[0]["embedding"].__setitem__(7, None)),
    "NaN": spoilt(lambda items: items[0]["embedding"].__setitem__(7, float("nan"))),
    "infinity": spoilt(lambda items: items[-1]["embedding"].__setitem__(7, float("inf"))),
    "a string": spoilt(lambda items: items[0]["embedding"].__setitem__(7, "0.1")),
    "zeros": spoilt(lambda items: items[1].update(embedding=[0.0] * 32)),
    "beyond half precision": spoilt(lambda items: items[1]["embedding"].__setitem__(7, 70_000)),
    "all shorter": spoilt(
        lambda items: [item.update(embedding=item["embedding"][:10]) for item in items]
    ),
    "half of the JSON": lambda server: (
        lambda texts: Reply(body=json.dumps({"data": server.data(texts)}).encode()[:-40])
    ),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_a_wrong_answer_is_asked_for_again_and_nothing_of_it_is_used(
    server: EmbeddingServer, service: EmbeddingService, passages: Passages, fault: str
) -> None:
    server.answer = first_documents(3, WRONG[fault](server))
    texts = passages(30)
    check(await collect_embeddings(service, texts), texts, server)


async def test_answers_in_another_order_are_put_right(
    server: EmbeddingServer, service: EmbeddingService, passages: Passages
) -> None:
    server.answer = lambda texts, number: Reply(body={"data": server.data(texts)[::-1]})
    texts = passages(20)
    check(await collect_embeddings(service, texts), texts, server)


@pytest.mark.parametrize(
    "reply",
    [
        CLOSED_CONNECTION,
        Reply(500, {}),
        Reply(502, b"<html>"),
        Reply(429, {}),
        Reply(429, {}, {"Retry-After": "soon"}),
    ],
    ids=str,
)
async def test_an_outage_of_some_requests_loses_nothing(
    server: EmbeddingServer, service: EmbeddingService, passages: Passages, reply: Reply
) -> None:
    server.answer = first_documents(4, reply)
    texts = passages(50)
    check(await collect_embeddings(service, texts), texts, server)


async def test_no_text_is_sent_before_the_time_that_was_named(
    server: EmbeddingServer, service: EmbeddingService, passages: Passages
) -> None:
    refused_at: list[float] = []

    def reply(texts: list[str]) -> Reply:
        refused_at.append(real_time.monotonic())
        return Reply(503, {}, {"Retry-After": "0.5"})

    server.answer = first_documents(2, reply)
    texts = passages(50)
    check(await collect_embeddings(service, texts), texts, server)
    under_way = [at for at in server.arrived if at < refused_at[0] + 0.45]
    assert len(under_way) <= 4


async def test_a_poisonous_text_costs_itself(
    server: EmbeddingServer, service: EmbeddingService, passages: Passages
) -> None:
    server.answer = lambda texts, number: (
        Reply(400, {"error": {"message": "invalid"}}) if any("POISON" in t for t in texts) else None
    )
    texts = passages(30)
    texts[17] += " POISON"
    got = await collect_embeddings(service, texts)
    check(got, texts, server, but=(17,))
    assert list(got.refused) == [17]


async def test_a_query_is_answered_while_documents_wait(
    server: EmbeddingServer, service: EmbeddingService, passages: Passages
) -> None:
    server.answer = lambda texts, number: (
        real_time.sleep(0.3) if len(texts[0]) >= MIN_DOCUMENT_CHARACTERS else None
    )
    documents = asyncio.ensure_future(collect_embeddings(service, passages(32)))
    await asyncio.sleep(0.05)
    begin = real_time.monotonic()
    await service.embed_query("a question")
    assert not documents.done()
    assert real_time.monotonic() - begin < 0.25
    await documents
