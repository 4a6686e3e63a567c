"""Pages of the origins that are named may read answers; nobody else's page may, and by default
none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from livedex.pipeline.api.app import create_app
from tests.support.http.app_client import asgi_client

OURS, SECOND, FOREIGN = "https://app.example.org", "http://localhost:5173", "https://evil.example"
OTHERS = [
    FOREIGN,
    "null",
    "",
    "*",
    "http://app.example.org",
    "https://app.example.org:8443",
    "https://app.example.org/",
    "https://APP.example.org",
    "https://app.example.org.evil.example",
    "https://evil.app.example.org",
    "https://app.example.org, https://evil.example",
]
PATHS = [
    "/v1/search",
    "/v1/documents/a/b",
    "/v1/collections/none",
    "/healthz",
    "/readyz",
    "/metrics",
    "/nowhere",
]


@pytest.fixture
async def page(app) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service that lets pages of two origins in."""
    made = create_app(replace(app.state.services, cors_origins=(OURS, SECOND)))
    async with made.router.lifespan_context(made), asgi_client(made) as client:
        yield client


def asking(
    origin: str, method: str = "POST", headers: str | None = "authorization,content-type"
) -> dict[str, str]:
    """The headers of a preflight."""
    asked = {"Origin": origin, "Access-Control-Request-Method": method}
    return asked if headers is None else asked | {"Access-Control-Request-Headers": headers}


def varies(answer: httpx.Response) -> bool:
    return "origin" in [name.strip().lower() for name in answer.headers.get("vary", "").split(",")]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [OURS, SECOND])
async def test_a_page_of_ours_may_ask_and_read(page, path, origin):
    before = await page.options(
        path, headers=asking(origin, headers="authorization, x-api-key, content-type")
    )
    assert (before.status_code, before.headers["access-control-allow-origin"], before.content) == (
        204,
        origin,
        b"",
    )
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= set(
        before.headers["access-control-allow-methods"].split(", ")
    )
    assert {"authorization", "x-api-key", "content-type"} <= set(
        before.headers["access-control-allow-headers"].lower().split(", ")
    )
    assert 0 < int(before.headers["access-control-max-age"]) <= 3600
    asked = await page.get(path, headers={"Origin": origin})
    assert asked.headers["access-control-allow-origin"] == origin
    assert {"X-Request-ID", "Retry-After"} <= set(
        asked.headers["access-control-expose-headers"].split(", ")
    )
    for answer in (before, asked):
        assert (
            varies(answer)
            and "access-control-allow-credentials" not in answer.headers
            and answer.headers["cache-control"] == "no-store"
        )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", OTHERS)
async def test_no_other_page_may(page, problem_of, path, origin):
    before = await page.options(path, headers=asking(origin))
    problem_of(before, 403)
    for answer in (before, await page.get(path, headers={"Origin": origin})):
        assert varies(answer)
        assert not {
            "access-control-allow-origin",
            "access-control-allow-credentials",
            "access-control-allow-methods",
        } & set(answer.headers)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("TRACE", None),
        ("CONNECT", None),
        ("BREW", None),
        ("POST", "x-evil"),
        ("GET", "authorization, cookie"),
    ],
)
async def test_a_page_of_ours_is_refused_what_nobody_needs(page, problem_of, method, headers):
    answer = await page.options("/v1/search", headers=asking(OURS, method, headers))
    problem_of(answer, 403)
    assert "access-control-allow-origin" not in answer.headers


async def test_a_page_reads_refusals_too(page):
    for answer in (
        await page.post("/v1/search", json={"qurey": "a"}, headers={"Origin": OURS}),
        await page.post("/v1/search", content=b"{", headers={"Origin": OURS}),
        await page.get("/v1/documents/none", headers={"Origin": OURS}),
        await page.get("/v1/documents?limit=0", headers={"Origin": OURS}),
        await page.delete("/v1/search", headers={"Origin": OURS}),
    ):
        assert (
            answer.status_code >= 400
            and answer.headers["access-control-allow-origin"] == OURS
            and varies(answer)
        )


async def test_a_request_without_an_origin_is_answered_so_that_caches_tell_them_apart(page):
    answer = await page.get("/v1/documents/none")
    assert varies(answer) and not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [OURS, FOREIGN, "null"])
async def test_by_default_no_page_of_another_origin_may(http, path, origin):
    for answer in (
        await http.options(path, headers=asking(origin)),
        await http.get(path, headers={"Origin": origin}),
    ):
        assert not any(name.startswith("access-control") for name in answer.headers), path
