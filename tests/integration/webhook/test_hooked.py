"""Signed payloads of other systems down to what is visible, on both brokers: in any order,
repeated, replayed.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from livedex.pipeline.errors import RejectedError, RetryableError
from livedex.pipeline.model import CacheValidator, TenantId
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.webhook_source import WebhookSource
from livedex.pipeline.stages.remote_content import FetchedContent
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.http.signed_payloads import SECRET, post_signed, signed
from tests.support.pipelines.brokers import on_alternating_brokers, on_postgres
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import (
    InProcessInstallation,
    gather_list,
    open_installation,
)

PAYLOADS = Path(__file__).parents[2] / "payloads"
A, B, C = paragraph(1), paragraph(2), paragraph(3)
MAP = {
    "document_id": "page.id",
    "text": "page.body",
    "title": "page.title",
    "deleted": "event == 'page_removed'",
}


class Elsewhere:
    """Contents by their URL; `failures` are raised first, one after another."""

    def __init__(self) -> None:
        self.contents: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.failures: list[Exception] = []

    @asynccontextmanager
    async def fetch(
        self, tenant_id: TenantId, source: str, url: str, validator: CacheValidator | None = None
    ) -> AsyncIterator[FetchedContent | None]:
        self.asked[url] += 1
        if self.failures:
            raise self.failures.pop()
        if url not in self.contents:
            raise RejectedError("it is not there", reason="not_fetched")
        yield FetchedContent(self.contents[url].encode(), "text/plain")

    async def fetch_json(self, tenant_id: TenantId, source: str, url: str) -> Any:
        raise RejectedError("nothing is asked here", reason="not_listed")

    def access_fingerprint(self, tenant_id: TenantId, source: str) -> str:
        return ""

    def refusal_reason(self, tenant_id: TenantId, source: str, url: str) -> str | None:
        return None


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
async def site(
    settings: Settings,
    tmp_path: Path,
    embedder: EmbeddingServer,
    elsewhere: Elsewhere,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[InProcessInstallation]:
    monkeypatch.setenv("SECRET", SECRET)
    made: list[dict[str, Any]] = [
        {"name": "crm", "signature": "standard-webhooks", "map": MAP, "order": "arrival"},
        {
            "name": "wiki",
            "signature": "standard-webhooks",
            "map": MAP | {"version": "page.version"},
        },
        {"name": "hub", "preset": "github-push", "signature": "standard-webhooks"},
        {"name": "bucket", "preset": "s3", "signature": "standard-webhooks"},
    ]
    sources = tuple(WebhookSource(**{"secret_env": "SECRET"} | each) for each in made)
    async with open_installation(
        settings.model_copy(update={"source": sources}), tmp_path, embedder, fetcher=elsewhere
    ) as opened:
        yield opened


def page(text: str | None, **more: Any) -> dict[str, Any]:
    return {
        "event": "page_removed" if text is None else "page_updated",
        "page": {"id": "p", "body": text, **more},
    }


@on_postgres
async def test_an_unsigned_payload_has_no_effect(site: InProcessInstallation) -> None:
    body = json.dumps(page(A)).encode()
    for headers in ({}, signed(body + b" ", "1"), signed(body, "1") | {"webhook-id": "2"}):
        assert (
            await site.http.post(
                "/v1/hooks/crm",
                content=body,
                headers={"content-type": "application/json"} | headers,
            )
        ).status_code == 401
    await site.ended()
    assert (await site.http.get("/v1/documents")).json()["documents"] == []


async def test_a_delivery_that_is_replayed_does_not_bring_old_content_back(
    site: InProcessInstallation,
) -> None:
    body = json.dumps(page(A)).encode()
    headers = signed(body, "1")
    first = (await site.http.post("/v1/hooks/crm", content=body, headers=headers)).json()
    [newer] = await post_signed(site, "crm", page(B), "2")
    for _ in range(3):
        assert (
            await site.http.post("/v1/hooks/crm", content=body, headers=headers)
        ).json() == first
    await site.ended()
    assert await site.text("p") == B
    assert await site.state(newer) == "synced"
    await post_signed(site, "crm", page(None), "3")
    assert (await site.http.post("/v1/hooks/crm", content=body, headers=headers)).json() == first
    await site.ended()
    assert await site.text("p") is None


async def test_twenty_deliveries_at_once_have_one_effect(site: InProcessInstallation) -> None:
    tokens = await gather_list(*(post_signed(site, "crm", page(A), "1") for _ in range(20)))
    assert len({token for [token] in tokens}) == 1
    await site.ended()
    assert site.embedder.embedded_documents == [A]


async def test_the_same_content_in_another_delivery_is_another_change(
    site: InProcessInstallation,
) -> None:
    for number, text in enumerate((A, B, A)):
        await post_signed(site, "crm", page(text), str(number))
    await site.ended()
    assert await site.text("p") == A


@on_alternating_brokers(
    ["order"], [[order] for order in list(itertools.permutations(range(4)))[::5]]
)
async def test_versions_of_the_payload_win_in_every_order(
    site: InProcessInstallation, order: tuple[int, ...]
) -> None:
    payloads = [page(A, version=1), page(B, version=2), page(None, version=3), page(C, version=4)]
    for n in order:
        await post_signed(site, "wiki", payloads[n], f"{n}")
        await post_signed(site, "wiki", payloads[n], f"{n}")
    await site.ended()
    assert (await site.text("p"), await site.version("p")) == (C, 4)


async def test_what_cannot_be_fetched_now_is_tried_again(
    site: InProcessInstallation, elsewhere: Elsewhere
) -> None:
    payload = json.loads((PAYLOADS / "minio_put.json").read_text("utf-8"))
    url = "http://172.17.0.2:9000/documents/notes/today.txt"
    elsewhere.contents[url] = A
    elsewhere.failures = [RetryableError("502"), RetryableError("timeout")]
    [token] = await post_signed(site, "bucket", payload, "1")
    assert await site.state(token, 30) == "synced"
    assert (await site.text("bucket/notes/today.txt"), elsewhere.asked[url]) == (A, 3)


@on_postgres
async def test_what_can_never_be_fetched_is_a_dead_letter(site: InProcessInstallation) -> None:
    [token] = await post_signed(
        site, "bucket", json.loads((PAYLOADS / "minio_put.json").read_text("utf-8")), "1"
    )
    assert await site.state(token, 30) == "dead"


@on_postgres
async def test_an_event_may_say_where_its_content_is(
    site: InProcessInstallation, elsewhere: Elsewhere
) -> None:
    elsewhere.contents["https://docs.example/a"] = A
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/x",
        "type": "livedex.document.changed",
        "subject": "d",
        "data": {"url": "https://docs.example/a"},
    }
    [token] = (await site.http.post("/v1/events", json=event)).json()["tokens"]
    assert await site.state(token, 30) == "synced"
    document = (await site.http.get("/v1/documents/d")).json()
    assert (document["uri"], document["mime_type"]) == ("https://docs.example/a", "text/plain")
