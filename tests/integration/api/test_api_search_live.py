"""Searches through the API down to a real database, with the embedder away."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from livedex.pipeline.ingest.sync_token import make_sync_token

HIT = {
    "document_id",
    "chunk_index",
    "content",
    "score",
    "fused_score",
    "vector_rank",
    "keyword_rank",
    "heading",
    "start",
    "end",
    "title",
    "uri",
    "collection",
    "metadata",
    "version",
    "synced_at",
}
AWKWARD = [
    "'",
    "a & | b",
    "team:x",
    "(((",
    "foo OR",
    '"open',
    "!!!",
    "o'brien",
    ":*",
    "\\",
    "x" * 5_000,
    "word " * 10_000,
    "🦊",
    "the and of",
    "???",
    "-foo",
    "a\x00b",
    "\x1b[31m",
    "\u2028",
    "%s",
    "$1",
    "'; drop table documents; --",
    "",
]


async def test_a_search_answers_by_keywords_and_says_that_meaning_is_missing(http, filling):
    await filling.sync(
        "docs/a",
        7,
        "the toner of the printer",
        "holiday of an employee",
        metadata={"team": "people"},
    )
    answer = (await http.post("/v1/search", json={"query": "printer toner"})).json()
    assert answer["degraded"] == ["vector"]
    assert answer["took_ms"] > 0
    best = answer["hits"][0]
    assert set(best) >= HIT
    assert (best["document_id"], best["chunk_index"], best["content"], best["version"]) == (
        "docs/a",
        0,
        "the toner of the printer",
        7,
    )
    assert best["synced_at"].endswith("Z")


async def test_a_search_by_meaning_alone_says_when_to_come_back(http):
    answer = await http.post("/v1/search", json={"query": "printer", "mode": "vector"})
    assert answer.status_code == 503
    assert answer.json()["type"]
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
async def test_an_awkward_query_is_answered_or_refused(http, filling, mode):
    await filling.sync("docs/a", 1, "plain words")
    for query in AWKWARD:
        answer = await http.post("/v1/search", json={"query": query, "mode": mode})
        assert answer.status_code in (200, 422), f"{query[:20]!r}: {answer.text[:200]}"
        assert answer.status_code == 422 or isinstance(answer.json()["hits"], list)


@pytest.mark.parametrize(
    "odd",
    ["lang' = 'en' or true --", "O'Brien", "$.temp", "", "x" * 300, "a\x00b", "{}", "\\"],
    ids=lambda odd: ascii(odd[:20]),
)
async def test_an_odd_filter_finds_nothing_or_is_refused(http, filling, odd):
    await filling.sync("docs/a", 1, "plain words", metadata={"lang": "de"})
    await filling.sync(
        "theirs", 1, "plain words", tenant="other", metadata={odd.replace("\x00", ""): "en"}
    )
    for narrowed in (
        {"where": {odd: "en"}},
        {"where": {"lang": odd}},
        {"document_ids": [odd]},
        {"collection": odd},
    ):
        answer = await http.post(
            "/v1/search", json={"query": "plain words", "mode": "keyword", **narrowed}
        )
        assert answer.status_code == 422 or answer.json()["hits"] == [], (
            f"{narrowed}: {answer.text[:300]}"
        )


async def test_a_search_after_a_change_finds_it(http, filling):
    await filling.sync("docs/a", 3, "plain words")
    body = {"query": "plain", "mode": "keyword", "after": make_sync_token("default", "docs/a", 3)}
    assert [
        hit["version"] for hit in (await http.post("/v1/search", json=body)).json()["hits"]
    ] == [3]


async def test_each_search_is_counted_once_under_its_mode(http):
    for _ in range(3):
        await http.post("/v1/search", json={"query": "printer", "mode": "keyword"})
    samples = [
        s
        for f in text_string_to_metric_families((await http.get("/metrics")).text)
        for s in f.samples
    ]
    assert [
        s.value
        for s in samples
        if s.name == "livedex_search_seconds_count" and s.labels["mode"] == "keyword"
    ] == [3]
