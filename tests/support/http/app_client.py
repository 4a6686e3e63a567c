"""A client of an ASGI app, and what every refusal of it has to be."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import FastAPI


def asgi_client(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """A client that speaks to the app without a network.

    Args:
        options: of httpx.
    """
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://livedex", **options
    )


def assert_problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Check that an answer is a problem of this status, and give it."""
    assert answer.status_code == status, answer.text[:300]
    assert answer.headers["content-type"].startswith("application/problem+json")
    body = dict(answer.json())
    assert body["status"] == status
    assert body["type"]
    assert body["title"]
    assert body["detail"]
    assert body["detail"].isprintable()
    assert "Traceback" not in answer.text
    assert answer.headers["x-request-id"]
    return body
