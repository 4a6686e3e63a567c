"""POST /v1/search: what reaches the engine, what is rejected, and how errors map."""

import gzip
import json
import logging

import pytest

from livedex.pipeline.errors import (
    NotFoundError,
    OutageError,
    RejectedError,
    RetryableError,
    TenantRequiredError,
)
from livedex.pipeline.http.bodies import MAX_BODY_BYTES
from livedex.pipeline.ingest.sync_token import make_sync_token
from livedex.pipeline.model import Reader

JSON = {"content-type": "application/json"}


async def test_a_search_reaches_the_engine_and_its_answer_comes_back(http, engine):
    engine.answer = {"hits": [{"document_id": "a", "score": 0.5}], "degraded": [], "took_ms": 1.0}
    answer = await http.post("/v1/search", json={"query": "refunds", "limit": 3})
    assert answer.status_code == 200
    assert answer.json() == engine.answer
    ((reader, request),) = engine.asked
    assert (reader, request.query, request.limit) == (Reader("default"), "refunds", 3)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'"query"',
        b"7",
        b"{",
        b'{"query": }',
        b"\xff\xfe",
        b'{"query": "a"',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"query": "a", "limit": NaN}',
        b'{"query": "a", "min_score": Infinity}',
        rb'{"query": "\ud800"}',
        rb'{"query": "a\udc00b"}',
        b'{"query": "\xed\xa0\x80"}',
        b'{"query": "a"} trailing',
        b"query=a",
    ],
    ids=lambda raw: repr(raw[:24]),
)
async def test_a_body_that_is_no_request_is_refused_before_the_engine(
    http, engine, problem_of, raw
):
    problem_of(await http.post("/v1/search", content=raw, headers=JSON), 422)
    assert engine.asked == []


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "nonsense",
        "",
    ],
)
async def test_a_body_that_does_not_say_it_is_json_is_refused(http, problem_of, kind):
    problem_of(
        await http.post("/v1/search", content=b'{"query": "a"}', headers={"content-type": kind}),
        415,
    )


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"]
)
async def test_json_may_be_said_in_any_of_its_ways(http, kind):
    assert (
        await http.post("/v1/search", content=b'{"query": "a"}', headers={"content-type": kind})
    ).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": ""},
        {"query": " \n\t "},
        {"query": 7},
        {"query": "a", "limit": 0},
        {"query": "a", "limit": 10**30},
        {"query": "a", "mode": "both"},
        {"query": "a", "limits": 5},
        {"query": "a", "tenant_id": "other"},
        {"query": "a", "where": {"year": {"near": 3}}},
        {"query_vector": [None] * 300},
    ],
    ids=lambda body: str(body)[:40],
)
async def test_a_request_without_sense_is_refused_with_the_place_of_each_error(
    http, engine, problem_of, body
):
    problem = problem_of(await http.post("/v1/search", json=body), 422)
    assert 1 <= len(problem["errors"]) <= 20
    assert all(error["pointer"].startswith("#/") and error["detail"] for error in problem["errors"])
    assert engine.asked == []


async def test_a_refusal_says_no_control_character_back(http, problem_of):
    problem = problem_of(
        await http.post("/v1/search", json={"query": "a", "wr\x1b[31m\x00\nong\u202e": 1}), 422
    )
    assert all(error["pointer"].isprintable() for error in problem["errors"])


async def test_a_body_that_is_too_large_is_refused_though_its_length_is_not_said(
    http, engine, problem_of
):
    async def endless():
        for _ in range(MAX_BODY_BYTES // 65_536 + 2):
            yield b" " * 65_536

    problem_of(await http.post("/v1/search", content=endless(), headers=JSON), 413)
    problem_of(
        await http.post("/v1/search", content=b" " * (MAX_BODY_BYTES + 1), headers=JSON), 413
    )
    assert engine.asked == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OutageError("embedder", "the provider said 503"), 503),
        (OutageError("database", "connect: refused"), 503),
        (RetryableError("search: DeadlockDetectedError"), 503),
        (RejectedError("the vector has 3 dimensions, not 256"), 422),
        (TenantRequiredError("name a tenant"), 403),
        (NotFoundError("no such thing"), 404),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_kind_of_error_has_its_status(http, engine, problem_of, error, status):
    engine.error = error
    answer = await http.post("/v1/search", json={"query": "a"})
    problem_of(answer, status)
    assert (
        (int(answer.headers["retry-after"]) >= 1)
        if status == 503
        else "retry-after" not in answer.headers
    )


async def test_the_time_that_a_dependency_asks_for_is_passed_on(http, engine):
    engine.error = OutageError("embedder", "too many requests", retry_after_s=41.2)
    assert (await http.post("/v1/search", json={"query": "a"})).headers["retry-after"] == "42"


async def test_what_nobody_foresaw_is_a_problem_and_stands_in_the_log_under_its_id(
    http, engine, problem_of, caplog
):
    engine.error = ZeroDivisionError("secret of the text")
    with caplog.at_level(logging.ERROR):
        answer = await http.post("/v1/search", json={"query": "a"})
    problem = problem_of(answer, 500)
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] in problem["detail"]
    assert answer.headers["x-request-id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_a_search_after_a_change_waits_for_it(http, engine, documents):
    documents.progress = ["pending", "pending", "synced"]
    answer = await http.post(
        "/v1/search", json={"query": "a", "after": make_sync_token("default", "docs/a.md", 7)}
    )
    assert answer.status_code == 200
    assert documents.progress == ["synced"]


async def test_a_search_after_a_change_that_takes_too_long_is_answered_all_the_same(http, engine):
    answer = await http.post(
        "/v1/search",
        json={"query": "a", "after": make_sync_token("default", "docs/a.md", 7), "wait_s": 0.05},
    )
    assert answer.status_code == 200
    assert len(engine.asked) == 1


@pytest.mark.parametrize(
    "token",
    ["", "nonsense", "\x00", "🦊", make_sync_token("another tenant", "docs/a.md", 7)],
    ids=ascii,
)
async def test_a_search_after_nothing_that_was_accepted_is_refused(http, engine, problem_of, token):
    assert (
        problem_of(await http.post("/v1/search", json={"query": "a", "after": token}), 422)[
            "errors"
        ][0]["pointer"]
        == "#/after"
    )
    assert engine.asked == []


@pytest.mark.parametrize(
    "header",
    [
        {"Authorization": "Bearer ldx_wrong"},
        {"X-API-Key": "wrong"},
        {"X-API-Key": b"sch\xf6n\xff"},
        {"Authorization": "Basic YTpi"},
    ],
)
async def test_a_wrong_key_is_refused_though_none_is_needed(http, engine, problem_of, header):
    answer = await http.post("/v1/search", json={"query": "a"}, headers=header)
    problem_of(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert engine.asked == []


async def test_the_tenant_is_not_taken_from_the_request(http, engine):
    assert (await http.post("/v1/search?tenant_id=other", json={"query": "a"})).status_code == 422
    await http.post(
        "/v1/search", json={"query": "a"}, headers={"X-Tenant": "other", "X-Tenant-Id": "other"}
    )
    assert engine.asked[0][0] == Reader("default")


async def test_the_answer_is_utf8_json(http, engine):
    engine.answer = {"hits": [{"content": "Zoë 狐狸 🦊"}], "degraded": [], "took_ms": 0.1}
    answer = await http.post("/v1/search", json={"query": "a"})
    assert json.loads(answer.content.decode("utf-8"))["hits"][0]["content"] == "Zoë 狐狸 🦊"
    assert answer.headers["content-type"] == "application/json"


async def test_a_compressed_request_is_refused_with_what_to_do(http, problem_of):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    problem = problem_of(
        await http.post("/v1/search", content=gzip.compress(b'{"query": "a"}'), headers=headers),
        415,
    )
    assert "without Content-Encoding" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"query": "a", "include": [%s0]}' % (b"0," * 1_000_000),
        b'{"query": "a", "include": [%s0]}' % (b"0," * 40_000),
        b"[%s0]" % (b"[]," * 400_000),
        b"{%s}" % b",".join(b'"x%d": 0' % n for n in range(100)),
        b'{"query": "a", "include": [%s"x"]}' % (b'"content",' * 20),
    ],
    ids=["a-million", "thousands", "lists", "fields", "include"],
)
async def test_a_body_with_more_values_than_a_search_needs_is_refused_in_few_words(
    http, problem_of, engine, body
):
    answer = await http.post(
        "/v1/search", content=body, headers={"content-type": "application/json"}
    )
    problem_of(answer, 422)
    assert len(answer.content) < 1_000
    assert engine.asked == []
