"""What every answer carries."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/collections"),
        ("GET", "/v1/documents/none"),
        ("GET", "/nowhere"),
        ("GET", "/%FF"),
        ("BREW", "/v1/search"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("POST", "/v1/search"),
    ],
)
async def test_every_answer_has_the_headers_that_keep_browsers_from_misusing_it(
    http, documents, method, path
):
    async def collections(tenant):
        return []

    documents.collections = collections
    headers = (await http.request(method, path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert (
        "default-src 'none'" in headers["content-security-policy"]
        and "frame-ancestors 'none'" in headers["content-security-policy"]
    )
    assert "access-control-allow-origin" not in headers
    assert len(headers["x-request-id"]) == 32


async def test_what_nobody_foresaw_is_a_problem_without_a_trace(http, engine, problem_of):
    engine.error = ZeroDivisionError("postgresql://user:secret@host in /srv/app.py")
    answer = await http.post("/v1/search", json={"query": "a"})
    body = problem_of(answer, 500)
    assert answer.headers["x-request-id"] in body["detail"]
    assert (
        "secret" not in answer.text
        and "app.py" not in answer.text
        and "ZeroDivision" not in answer.text
    )


async def test_the_description_tells_how_to_show_a_key(http):
    described = (await http.get("/openapi.json")).json()
    assert set(described["components"]["securitySchemes"]) == {"bearer", "key"}
    for path, calls in described["paths"].items():
        assert all(("security" in call) == path.startswith("/v1/") for call in calls.values()), path


@pytest.mark.parametrize("given", ["a", "4f1c-0a9b.E:_", "x" * 128])
async def test_the_request_id_of_a_caller_is_kept(http, given):
    answer = await http.get("/v1/collections", headers={"x-request-id": given})
    assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", 'a"b', "a%0d", "a/b"])
async def test_an_unsafe_request_id_is_replaced(http, given):
    answer = await http.get("/v1/collections", headers={"x-request-id": given})
    assert answer.headers["x-request-id"] != given and len(answer.headers["x-request-id"]) == 32


async def test_requests_are_counted_by_call(http, engine):
    await http.get("/v1/documents/a%2Fb")
    await http.head("/healthz")
    await http.get("/nowhere/4711")
    await http.request("BREW", "/healthz")
    engine.error = ZeroDivisionError()
    await http.post("/v1/search", json={"query": "a"})
    lines = (await http.get("/metrics")).text.splitlines()
    counted = {line.partition(" ")[0] for line in lines if line.startswith("livedex_http_requests")}
    name = "livedex_http_requests_total"
    for route, method, status in (
        ("get_document", "GET", 404),
        ("get_health", "HEAD", 200),
        ("other", "GET", 404),
        ("search", "POST", 500),
    ):
        assert f'{name}{{method="{method}",route="{route}",status="{status}"}}' in counted
    assert not any("4711" in line or "BREW" in line for line in counted)
    assert any(line.startswith("livedex_http_request_seconds_count{") for line in lines)
