"""Payloads of GitHub, GitLab, S3 and MinIO as their documentation shows them, fetched with
credentials from a server in their shape.

Deliveries are shuffled and repeated; what is right at the end does not depend on that.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import asyncpg
import pytest

from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.webhook_source import WebhookSource
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.http.scripted_website import WebRequest, WebResponse, WebServer
from tests.support.http.signed_payloads import SECRET, post_signed
from tests.support.pipelines.brokers import on_alternating_brokers, on_postgres
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import InProcessInstallation, open_installation

PAYLOADS = Path(__file__).parents[2] / "payloads"
A, B, C, D = (paragraph(n) for n in range(4))
TOKEN, KEY_ID, KEY = "tok-of-the-api-0815", "AKIDOFTHEBUCKET", "secret-of-the-bucket-4711"


def payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text("utf-8"))


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture
async def site(
    settings: Settings,
    tmp_path: Path,
    embedder: EmbeddingServer,
    web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[InProcessInstallation]:
    for name, value in {
        "SECRET": SECRET,
        "API_TOKEN": TOKEN,
        "BUCKET_KEY": f"{KEY_ID}:{KEY}",
    }.items():
        monkeypatch.setenv(name, value)
    made: list[dict[str, Any]] = [
        {
            "name": "hub",
            "preset": "github-push",
            "base_url": f"{web.url}/api/v3",
            "token_env": "API_TOKEN",
        },
        {
            "name": "lab",
            "preset": "gitlab-push",
            "base_url": f"{web.url}/api/v4",
            "token_env": "API_TOKEN",
        },
        {"name": "s3", "preset": "s3", "base_url": f"{web.url}/", "token_env": "BUCKET_KEY"},
        {"name": "minio", "preset": "s3", "allow_hosts": [f"127.0.0.1:{web.port}"]},
        {"name": "notion", "preset": "notion", "base_url": web.url, "token_env": "API_TOKEN"},
        {
            "name": "wiki",
            "preset": "confluence",
            "base_url": f"{web.url}/wiki",
            "token_env": "API_TOKEN",
            "include": [],
        },
    ]
    sources = tuple(
        WebhookSource(**{"secret_env": "SECRET", "signature": "standard-webhooks"} | each)
        for each in made
    )
    async with open_installation(
        settings.model_copy(update={"source": sources}), tmp_path, embedder
    ) as opened:
        yield opened


async def delivered(
    site: InProcessInstallation, source: str, payloads: list[Any], seed: int
) -> dict[str, str | None]:
    """Every payload three times, in a random order; the documents that are there at the end, with
    their texts.
    """
    deliveries = [(body, str(n)) for n, body in enumerate(payloads)] * 3
    random.Random(seed).shuffle(deliveries)
    for body, delivery in deliveries:
        await post_signed(site, source, body, delivery)
    await site.ended()
    names = [
        document["document_id"]
        for document in (await site.http.get("/v1/documents")).json()["documents"]
    ]
    return {name: await site.text(name) for name in sorted(names)}


def only_with(
    header: str, value: str, text: str, **headers: str
) -> Callable[[WebRequest], WebResponse]:
    """A page for who shows this credential; as GitHub, for everybody else it is not there."""
    return lambda visit: (
        WebResponse(text.encode(), headers=headers)
        if visit.headers.get(header) == value
        else WebResponse(status=404)
    )


async def nothing_lost_or_told(site: InProcessInstallation, owner: asyncpg.Connection) -> None:
    """Every text was paid for once, nothing is dead, and no credential stands anywhere in the
    database.
    """
    assert sorted(site.embedder.embedded_documents) == sorted(set(site.embedder.embedded_documents))
    assert await site.s.operations.count_dead_letters() == 0
    tables = [
        row[0]
        for row in await owner.fetch("select tablename from pg_tables where schemaname = 'public'")
    ]
    for table in tables:
        rows = str(await owner.fetch(f"select * from {table}"))
        assert not any(
            secret in rows or secret.encode().hex() in rows for secret in (TOKEN, KEY)
        ), table


@on_alternating_brokers(["seed"], [[0], [1]])
async def test_pushes_to_github(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection, seed: int
) -> None:
    first = payload("github_push")
    second = copy.deepcopy(first)
    second["repository"]["pushed_at"] += 1
    second["before"], second["after"] = first["after"], "c" * 40
    commit = second["commits"][0] | {
        "id": "c" * 40,
        "added": ["shipping.md"],
        "modified": ["refunds.md"],
        "removed": ["guides/first steps.md"],
    }
    second["commits"], second["head_commit"] = [commit], commit
    for ref, texts in (
        ("main", {"refunds.md": D, "shipping/gr%C3%B6%C3%9Fen.md": C, "shipping.md": A}),
        (
            first["after"],
            {"refunds.md": A, "guides/first%20steps.md": B, "shipping/gr%C3%B6%C3%9Fen.md": C},
        ),
        (second["after"], {"refunds.md": D, "shipping.md": A}),
    ):
        for path, text in texts.items():
            target = f"/api/v3/repos/octo-org/handbook/contents/{path}?ref={ref}"
            web.pages[target] = only_with(
                "authorization",
                f"Bearer {TOKEN}",
                text,
                **{"content-type": "application/vnd.github.raw+json; charset=utf-8"},
            )
    found = await delivered(site, "hub", [first, second], seed)
    assert found == {"hub/refunds.md": D, "hub/shipping.md": A, "hub/shipping/größen.md": C}
    assert {visit.headers["accept"] for visit in web.requests} == {
        "application/vnd.github.raw+json"
    }
    await nothing_lost_or_told(site, owner)


@on_alternating_brokers(["seed"], [[0], [1]])
async def test_pushes_to_gitlab(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection, seed: int
) -> None:
    first = payload("gitlab_push")
    second = copy.deepcopy(first)
    second["before"], second["after"] = first["after"], "d" * 40
    second["checkout_sha"] = second["after"]
    second["commits"] = [
        first["commits"][1]
        | {
            "id": "d" * 40,
            "timestamp": "2026-04-14T00:00:00+02:00",
            "added": [],
            "modified": ["CHANGELOG"],
            "removed": ["docs/new name.md"],
        }
    ]
    second["total_commits_count"] = 1
    for ref, texts in (
        ("master", {"CHANGELOG": D, "app%2Fcontroller%2Fapplication.rb": B}),
        (
            first["after"],
            {"CHANGELOG": A, "app%2Fcontroller%2Fapplication.rb": B, "docs%2Fnew%20name.md": C},
        ),
        (second["after"], {"CHANGELOG": D}),
    ):
        for path, text in texts.items():
            target = f"/api/v4/projects/15/repository/files/{path}/raw?ref={ref}"
            web.pages[target] = only_with(
                "private-token", TOKEN, text, **{"content-type": "text/plain"}
            )
    for push in (first, second):
        target = (
            f"/api/v4/projects/15/repository/compare?from={push['before']}&to={push['after']}&"
            "straight=true"
        )
        web.pages[target] = only_with(
            "private-token", TOKEN, '{"diffs": [], "compare_timeout": false}'
        )
    target = f"/api/v4/projects/15/repository/commits/{first['after']}?stats=false"
    web.pages[target] = only_with("private-token", TOKEN, '{"id": "da1560886d4f"}')
    assert await delivered(site, "lab", [first, second], seed) == {
        "lab/CHANGELOG": D,
        "lab/app/controller/application.rb": B,
    }
    await nothing_lost_or_told(site, owner)


def signature(visit: WebRequest) -> str:
    """What the signature of a request must be.

    Source: Amazon S3, "Authenticating requests: using query parameters".
    """
    parts = urlsplit(visit.target)
    query = dict(parse_qsl(parts.query))
    query.pop("X-Amz-Signature")
    day, region = query["X-Amz-Credential"].split("/")[1:3]
    canonical = "&".join(
        f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in sorted(query.items())
    )
    request = "\n".join(
        [
            "GET",
            parts.path,
            canonical,
            f"host:{visit.headers['host']}",
            "",
            "host",
            "UNSIGNED-PAYLOAD",
        ]
    )
    text = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            query["X-Amz-Date"],
            f"{day}/{region}/s3/aws4_request",
            hashlib.sha256(request.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{KEY}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Bucket:
    """Objects for who signs as they should; the ETag of each is that of its content."""

    def __init__(self, web: WebServer, objects: dict[str, str], *, is_public: bool = False) -> None:
        self.objects, self.is_public = objects, is_public
        web.respond = self._respond(web)  # type: ignore[method-assign]

    def _respond(self, web: WebServer) -> Callable[[WebRequest], WebResponse]:
        def respond(visit: WebRequest) -> WebResponse:
            web.requests.append(visit)
            given = dict(parse_qsl(urlsplit(visit.target).query)).get("X-Amz-Signature")
            if not self.is_public and (given is None or given != signature(visit)):
                return WebResponse(status=403)
            text = self.objects.get(urlsplit(visit.target).path)
            if text is None:
                return WebResponse(status=404)
            etag = f'"{hashlib.md5(text.encode()).hexdigest()}"'
            if visit.headers.get("if-none-match") == etag:
                return WebResponse(status=304)
            return WebResponse(
                text.encode(), headers={"etag": etag, "content-type": "binary/octet-stream"}
            )

        return respond


@on_alternating_brokers(["seed"], [[0], [1]])
async def test_notifications_of_s3(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection, seed: int
) -> None:
    path = "/amzn-s3-demo-bucket/reports/Q1%20plan%20%26%20gr%C3%B6%C3%9Fe.md"
    Bucket(web, {path: D})  # what is there now; what the first event announced is gone
    first = payload("s3_put")
    second, third = copy.deepcopy(first), copy.deepcopy(first)
    for later, minute in ((second, "05"), (third, "10")):
        later["Records"] = later["Records"][:1]
        later["Records"][0]["eventTime"] = f"2026-03-01T12:{minute}:00.000Z"
        later["Records"][0]["s3"]["object"]["sequencer"] = f"0055AED6DCD902{minute}"
    third["Records"][0]["eventName"] = "ObjectCreated:CompleteMultipartUpload"
    assert await delivered(site, "s3", [first, second, third], seed) == {
        "s3/reports/Q1 plan & größe.md": D
    }
    assert site.embedder.embedded_documents == [D]
    document = (await site.http.get("/v1/documents/s3/reports/Q1 plan & größe.md")).json()
    assert "X-Amz" not in document["uri"] and document["changed_at"].startswith("2026-03-01T12:10")
    await nothing_lost_or_told(site, owner)


@on_postgres
async def test_a_notification_without_a_change_costs_one_signed_request(
    site: InProcessInstallation, web: WebServer
) -> None:
    bucket = Bucket(web, {"/amzn-s3-demo-bucket/reports/Q1%20plan%20%26%20gr%C3%B6%C3%9Fe.md": A})
    notice = payload("s3_put")
    for minute, text in (("01", A), ("02", A), ("03", B)):
        notice["Records"] = notice["Records"][:1]
        notice["Records"][0]["eventTime"] = f"2026-03-01T12:{minute}:00.000Z"
        notice["Records"][0]["s3"]["object"]["sequencer"] = minute
        bucket.objects = dict.fromkeys(bucket.objects, text)
        [token] = await post_signed(site, "s3", notice, minute)
        assert await site.state(token, 30) == "synced"
    assert (len(web.requests), site.embedder.embedded_documents) == (3, [A, B])
    assert [visit.headers.get("if-none-match") is not None for visit in web.requests] == [
        False,
        True,
        True,
    ]


@on_postgres
async def test_notifications_of_minio_say_where_it_is_and_get_no_credentials(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection
) -> None:
    Bucket(web, {"/documents/notes/today.txt": A}, is_public=True)
    notice = payload("minio_put")
    notice["Records"][0]["responseElements"]["x-minio-origin-endpoint"] = web.url
    assert await delivered(site, "minio", [notice], 0) == {"minio/notes/today.txt": A}
    assert web.requests[0].target == "/documents/notes/today.txt"
    await nothing_lost_or_told(site, owner)


@on_postgres
async def test_a_payload_cannot_send_credentials_elsewhere(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection
) -> None:
    event = payload("confluence_page")
    event["page"]["self"] = "https://evil.example/display/X/5"
    content = {"id": str(event["page"]["id"]), "body": {"export_view": {"value": f"<p>{A}</p>"}}}
    web.pages[f"/wiki/rest/api/content/{event['page']['id']}?expand=body.export_view"] = (
        WebResponse(json.dumps(content).encode())
    )
    [token] = await post_signed(site, "wiki", event, "1")
    await site.ended()
    assert await site.state(token) == "synced" and web.requests[0].headers["authorization"] == TOKEN
    # what is published under the name of the source by somebody else, for another place or as
    # another tenant
    with WebServer() as other:
        other.pages["/"] = WebResponse(A.encode())
        for tenant, source in (
            ("default", "hub"),
            ("default", "s3"),
            ("other", "hub"),
            ("other", "s3"),
            ("default", ""),
        ):
            url = f"{other.url}/"
            assert (
                site.s.fetcher is not None
                and site.s.fetcher.refusal_reason(tenant, source, url) is not None
            )  # type: ignore[arg-type]


@on_postgres
async def test_pages_of_notion(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection
) -> None:
    event = payload("notion_page")
    later = copy.deepcopy(event) | {"id": "other", "timestamp": "2027-01-01T00:00:00.000Z"}
    answer = json.dumps({"object": "page_markdown", "id": "x", "markdown": A, "truncated": False})
    web.pages[f"/v1/pages/{event['entity']['id']}/markdown"] = only_with(
        "authorization", f"Bearer {TOKEN}", answer
    )
    assert await delivered(site, "notion", [event, later], 1) == {
        f"notion/{event['entity']['id']}": A
    }
    await nothing_lost_or_told(site, owner)


@on_alternating_brokers(("seed", "source"), itertools.product(range(2), ("s3", "minio")))
async def test_notifications_in_any_order_and_again_end_in_what_the_bucket_holds(
    site: InProcessInstallation, web: WebServer, source: str, seed: int
) -> None:
    """Several of one object in one millisecond, writes and deletes, told while others happen."""
    rng, notice = random.Random(seed), payload("s3_put" if source == "s3" else "minio_put")
    name = notice["Records"][0]["s3"]["bucket"]["name"]
    bucket, told, left = (
        Bucket(web, {}, is_public=source == "minio"),
        list[tuple[Any, str]](),
        list[tuple[Any, str]](),
    )
    notice["Records"][0]["responseElements"]["x-minio-origin-endpoint"] = web.url
    for n in range(14):
        key, event = f"k{rng.randrange(3)}.md", copy.deepcopy(notice)
        record = event["Records"][0]
        del event["Records"][1:]
        if f"/{name}/{key}" in bucket.objects and rng.random() < 0.4:
            del bucket.objects[f"/{name}/{key}"]
            record["eventName"] = (
                "ObjectRemoved:Delete" if source == "s3" else "s3:ObjectRemoved:Delete"
            )
        else:
            bucket.objects[f"/{name}/{key}"] = paragraph(rng.randrange(20))
        record["eventTime"] = f"2026-03-01T12:00:00.{n // 4:03}Z"
        record["s3"]["object"] |= {
            "key": key,
            "sequencer": f"0055AED6DCD9028{n:03X}",
            "eTag": f"{n:032x}",
        }
        left.append((event, str(n)))
        while left and rng.random() < 0.4:
            told.append(left.pop(rng.randrange(len(left))))
            for body, delivery in [told[-1], *rng.choices(told, k=rng.randint(0, 2))]:
                await post_signed(site, source, body, delivery)
    rng.shuffle(left)
    for body, delivery in left + rng.sample(told, k=len(told) // 2):
        await post_signed(site, source, body, delivery)
    await site.ended()
    names = [
        document["document_id"]
        for document in (await site.http.get("/v1/documents")).json()["documents"]
    ]
    assert {f"/{name}/{key.split('/')[1]}": await site.text(key) for key in names} == bucket.objects


@on_alternating_brokers(
    ("source", "name"), [("notion", "notion_page"), ("wiki", "confluence_page")]
)
async def test_an_answer_of_another_type_becomes_no_document(
    site: InProcessInstallation, web: WebServer, source: str, name: str
) -> None:
    web.respond = lambda visit: WebResponse(
        b'{"markdown": null, "body": {"export_view": {"value": null}}}'
    )  # type: ignore[method-assign]
    await post_signed(site, source, payload(name), "0")
    await site.ended()
    assert site.embedder.embedded_documents == [] and [
        letter.reason for letter in await site.s.letters.all()
    ] == ["retries_exhausted"]
