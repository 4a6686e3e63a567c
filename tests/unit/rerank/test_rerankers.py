"""Rerankers speak the protocols of their providers; odd answers are no ranking."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from livedex.pipeline.errors import (
    ConfigError,
    OutageError,
    RejectedError,
    RetryableError,
)
from livedex.pipeline.model import Reader, TenantId
from livedex.pipeline.rerank.http_reranker import HttpReranker
from livedex.pipeline.rerank.reranker import Reranker
from livedex.pipeline.rerank.reranker_factory import build_reranker
from livedex.pipeline.rerank.reranking_engine import RERANKED_HITS, RerankingEngine
from livedex.pipeline.search.answer import SearchResult
from livedex.pipeline.search.request import SearchRequest
from tests.support.http.scripted_server import HttpRequest, HttpResponse, ScriptedServer

KEY = "key-1"
TEXTS = ["about tea", "about parcels", "about plums"]
SPECS = ("cohere:rerank-v4", "jina:m", "voyage:m", "tei")


def results(kind: str, scores: list[float]) -> Any:
    order = sorted(range(len(scores)), key=lambda n: -scores[n])
    if kind == "tei":
        return [{"index": n, "score": scores[n]} for n in order]
    found = [{"index": n, "relevance_score": scores[n]} for n in order]
    return {"data" if kind == "voyage" else "results": found}


class RerankServer(ScriptedServer):
    """Answers with scores, or as `respond_with` says; notes each request."""

    def __init__(self, respond_with: Callable[[], Any], status: int = 200) -> None:
        self.respond_with, self.status, self.asked = respond_with, status, list[HttpRequest]()
        super().__init__()

    def reply_to(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
        body = json.dumps(self.respond_with()).encode()
        return HttpResponse(self.status, body, {"content-type": "application/json"})


async def scores_of(spec: str, server: RerankServer, **options: Any) -> list[float]:
    made = build_reranker(spec, url=server.address, api_key=SecretStr(KEY + "\n"))
    assert isinstance(made, HttpReranker) and made.model_id == spec
    for name, value in options.items():
        setattr(made, name, value)
    try:
        return await made.score("parcels", TEXTS)
    finally:
        await made.close()


@pytest.mark.parametrize("spec", SPECS)
async def test_scores_come_back_in_the_order_of_the_texts(spec: str) -> None:
    kind = spec.partition(":")[0]
    with RerankServer(lambda: results(kind, [0.1, 0.9, 0.5])) as server:
        assert await scores_of(spec, server) == [0.1, 0.9, 0.5]
        [request] = server.asked
    paths = {"cohere": "/v2/rerank", "tei": "/rerank"}
    assert request.path == paths.get(kind, "/v1/rerank")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    body = json.loads(request.body)
    assert body["query"] == "parcels"
    assert body["texts" if kind == "tei" else "documents"] == TEXTS


ODD = [
    {},
    [],
    {"results": []},
    {"results": [{"index": 0, "relevance_score": 1}] * 3},
    {"results": [{"index": n, "relevance_score": "x"} for n in range(3)]},
    {"results": [{"index": n, "relevance_score": True} for n in range(3)]},
    {"results": [{"index": n - 1, "relevance_score": 1} for n in range(3)]},
    {"results": [{"index": n + 1, "relevance_score": 1} for n in range(3)]},
    {"results": [{"index": n, "relevance_score": None} for n in range(3)]},
    {"results": [{"relevance_score": 1}] * 3},
    {"results": 5},
    "text",
    None,
]


@pytest.mark.parametrize("answer", ODD, ids=lambda answer: json.dumps(answer)[:40])
async def test_an_odd_answer_is_an_outage(answer: Any) -> None:
    with RerankServer(lambda: answer) as server, pytest.raises(OutageError):
        await scores_of("jina:m", server)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_a_refusal_is_an_outage_without_the_texts(status: int) -> None:
    refusing = RerankServer(lambda: {"message": "about tea"}, status)
    with refusing as server, pytest.raises(RetryableError) as raised:
        await scores_of("cohere:m", server)
    assert "about" not in str(raised.value) and KEY not in str(raised.value)


async def test_a_late_answer_is_given_up() -> None:
    from time import sleep

    def late() -> Any:
        sleep(0.5)
        return []

    with RerankServer(late) as server, pytest.raises(RetryableError, match="no answer within"):
        await scores_of("tei", server, _deadline_s=0.05)


@pytest.mark.parametrize(
    ("spec", "url", "key"),
    [
        ("cohere", "http://x", "k"),
        ("cohere:", "http://x", "k"),
        ("minilm:x", None, "k"),
        ("cohere:m", None, ""),
        ("tei", None, "k"),
        ("tei", "ftp://x", ""),
        ("tei", "nothing", ""),
        ("jina:m", None, "k\u00fc"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(spec: str, url: str | None, key: str) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_RERANKER"):
        build_reranker(spec, url=url, api_key=SecretStr(key))


class FixedEngine:
    """Finds so many hits; notes what it is asked."""

    def __init__(self, hits: int) -> None:
        self.hits, self.asked = hits, list[SearchRequest]()

    async def search(self, reader: Reader, request: SearchRequest) -> SearchResult:
        self.asked.append(request)
        names = range(min(self.hits, request.limit))
        found: list[Any] = [{"document_id": f"d{n}", "content": f"text {n}"} for n in names]
        return SearchResult(found, [], 1.0)


class NumberReranker:
    """Prefers the text with the greater number, or fails."""

    model_id = "numbers"

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.texts = failure, list[str]()

    async def score(self, query: str, texts: Any) -> list[float]:
        if self.failure is not None:
            raise self.failure
        self.texts = list(texts)
        return [float(text.split()[1]) for text in texts]

    async def close(self) -> None:
        """Nothing is open."""


READER = Reader(TenantId("t"))


def engine(hits: int, reranker: Reranker | None) -> tuple[RerankingEngine, FixedEngine]:
    inner = FixedEngine(hits)
    return RerankingEngine(inner, reranker), inner


async def test_the_best_hits_are_reordered_and_cut() -> None:
    searches, inner = engine(80, NumberReranker())
    request = SearchRequest(query="q", limit=3, rerank=True, include=[])
    answer = await searches.search(READER, request)
    assert [hit["document_id"] for hit in answer.hits] == ["d49", "d48", "d47"]
    assert [hit["rerank_score"] for hit in answer.hits] == [49.0, 48.0, 47.0]
    assert not any("content" in hit for hit in answer.hits) and answer.degraded == []
    assert inner.asked[0].limit == RERANKED_HITS and not inner.asked[0].rerank


@pytest.mark.parametrize("failure", [OutageError("reranker", "away"), RetryableError("later")])
async def test_a_failure_keeps_the_order_and_says_so(failure: Exception) -> None:
    searches, _ = engine(9, NumberReranker(failure))
    answer = await searches.search(READER, SearchRequest(query="q", limit=2, rerank=True))
    assert [hit["document_id"] for hit in answer.hits] == ["d0", "d1"]
    assert answer.degraded == ["rerank"]


async def test_what_cannot_be_reranked_is_refused() -> None:
    with pytest.raises(RejectedError, match="LIVEDEX_RERANKER"):
        await engine(1, None)[0].search(READER, SearchRequest(query="q", rerank=True))
    searches, _ = engine(1, NumberReranker())
    with pytest.raises(RejectedError, match="query"):
        await searches.search(READER, SearchRequest(query_vector=[1.0], rerank=True))
    for other in ({"cursor": ""}, {"group_by": "document"}):
        with pytest.raises(ValueError, match="rerank"):
            SearchRequest.model_validate({"query": "q", "rerank": True, **other})


async def test_without_the_wish_nothing_is_reranked() -> None:
    reranker = NumberReranker()
    searches, _ = engine(3, reranker)
    answer = await searches.search(READER, SearchRequest(query="q"))
    assert [hit["document_id"] for hit in answer.hits] == ["d0", "d1", "d2"]
    assert reranker.texts == []
