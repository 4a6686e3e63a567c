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
