"""POST /v1/hooks/{source}: who is let in, what is read, what is answered."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from livedex.pipeline.settings.webhook_source import WebhookSource
from tests.unit.webhook.conftest import MAX_DOCUMENT_BYTES

MAP = {"document_id": "id", "text": "text", "deleted": "gone", "url": "url"}


@pytest.fixture
def sources() -> Sequence[WebhookSource]:
    made = [
        {
            "name": "crm",
            "signature": "github",
            "tenant": "acme",
            "collection": "c",
            "metadata": {"k": 1},
            "map": MAP,
            "order": "arrival",
        },
        {"name": "versioned", "signature": "github", "map": MAP | {"version": "version"}},
        {"name": "small", "signature": "github", "map": MAP, "order": "arrival", "max_bytes": 1000},
        {"name": "ü & b", "signature": "gitlab", "map": MAP, "order": "arrival"},
        {"name": "hub", "preset": "github-push"},
    ]
    return [WebhookSource(**{"secret_env": f"SECRET_{n}"} | each) for n, each in enumerate(made)]


async def send(
    http: Any,
    source: str,
    body: Any,
    *,
    sign: bool = True,
    kind: str | None = "application/json",
    **headers: str,
) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": kind} if kind else {}
    if sign:
        given["x-hub-signature-256"] = (
            f"sha256={hmac.new(source.encode(), raw, hashlib.sha256).hexdigest()}"
        )
    return await http.post(f"/v1/hooks/{source}", content=raw, headers=given | headers)


async def test_bodies_that_never_come_to_a_hook_keep_nobody_out_who_writes_with_a_key(http, intake):
    async def silent() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    waiting = [
        asyncio.create_task(http.post("/v1/hooks/crm", content=silent())) for _ in range(100)
    ]
    await asyncio.sleep(0.1)
    assert (await http.put("/v1/documents/d", json={"text": "a"})).status_code == 202
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert list(intake.contents) == ["d"]


async def test_the_tenant_comes_from_the_source_and_never_from_the_payload(http, intake, versions):
    answer = await send(
        http, "crm", {"id": "a", "text": "x", "tenant": "other", "tenant_id": "other"}
    )
    assert answer.status_code == 202
    assert len(answer.json()["tokens"]) == 1
    data = intake.changes[0].data
    assert (data.tenant_id, data.source, data.collection, data.metadata) == (
        "acme",
        "crm",
        "c",
        {"k": 1},
    )
    assert versions.tenants == ["acme"]


async def test_no_key_is_needed_and_none_lets_anybody_in(http, intake, problem_of):
    problem_of(
        await send(
            http, "crm", {"id": "a", "text": "x"}, sign=False, authorization="Bearer anything"
        ),
        401,
    )
    assert (
        await send(http, "crm", {"id": "a", "text": "x"}, authorization="Bearer anything")
    ).status_code == 202
    assert len(intake.changes) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b'{"b": 1.0,  "id":"\\u00e9", "text": "x"}\n',
        '{"id":"é", "text": "x"}'.encode(),
        b'{"id":"a","id":"\xc3\xa9","text":"x"}',
    ],
)
async def test_the_signature_is_over_the_bytes_as_they_came(http, intake, problem_of, raw):
    assert (await send(http, "crm", raw)).status_code == 202
    signature = f"sha256={hmac.new(b'crm', raw, hashlib.sha256).hexdigest()}"
    problem_of(
        await send(http, "crm", raw + b" ", sign=False, **{"x-hub-signature-256": signature}), 401
    )
    assert [change.data.document_id for change in intake.changes] == ["é"]


@pytest.mark.parametrize(
    "signature",
    ["", "sha256=", "sha256=00", "sha256=" + "zz" * 32, "sha256=" + "\u00e9" * 64, "0" * 64],
)
async def test_what_is_no_signature_is_refused_before_anything_is_read(
    http, intake, problem_of, signature
):
    for body in (b"", b"no json", b'{"id": "a", "text": "x"}'):
        headers = [
            (b"x-hub-signature-256", signature.encode("latin-1")),
            (b"content-type", b"text/plain"),
        ]
        problem = problem_of(await http.post("/v1/hooks/crm", content=body, headers=headers), 401)
        assert "crm" not in problem["detail"]
    assert intake.changes == []


async def test_a_signed_body_that_is_no_json_is_refused_for_that(http, problem_of):
    problem_of(await send(http, "crm", b""), 422)
    problem_of(
        await send(http, "crm", b"payload=%7B%7D", kind="application/x-www-form-urlencoded"), 415
    )
    problem_of(await send(http, "crm", b"{}", kind=None), 415)


async def test_a_compressed_payload_is_refused_with_what_to_do(http, problem_of):
    problem = problem_of(
        await send(http, "crm", {"id": "a", "text": "x"}, **{"content-encoding": "gzip"}), 415
    )
    assert "without Content-Encoding" in problem["detail"]


async def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_field(http, problem_of):
    assert (
        problem_of(await send(http, "crm", {"id": "a", "text": 5}), 422)["errors"][0]["pointer"]
        == "#/text"
    )
    assert (
        problem_of(await send(http, "crm", {"text": "a"}), 422)["errors"][0]["pointer"]
        == "#/document_id"
    )


async def test_an_unknown_source_is_not_there(http, problem_of):
    problem_of(await send(http, "nobody", {}), 404)
    problem_of(await send(http, "crm/x", {}), 404)


async def test_the_name_of_a_source_may_be_any(http):
    answer = await http.post(
        "/v1/hooks/%C3%BC%20%26%20b",
        json={"id": "a", "text": "x"},
        headers=[(b"x-gitlab-token", "ü & b".encode())],
    )
    assert answer.status_code == 202


async def test_a_payload_is_bounded_by_its_source(http, intake, problem_of):
    assert (
        await send(http, "crm", {"id": "a", "text": "x" * MAX_DOCUMENT_BYTES})
    ).status_code == 202
    problem_of(await send(http, "crm", {"id": "a", "text": "x" * (MAX_DOCUMENT_BYTES + 1)}), 413)
    problem_of(await send(http, "small", {"id": "a", "text": "x" * 1000}), 413)
    problem_of(await send(http, "crm", b"x" * 1_048_577), 413)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(65_536)

    problem_of(
        await http.post("/v1/hooks/crm", content=endless(), headers={"x-hub-signature-256": "x"}),
        413,
    )
    assert len(intake.changes) == 1


async def test_what_is_sent_again_is_known_by_what_was_signed_whatever_the_delivery_is_called(
    http, intake
):
    tokens = [
        (
            await send(http, "crm", {"id": "a", "text": text}, **{"x-github-delivery": delivery})
        ).json()["tokens"]
        for text, delivery in (("A", "1"), ("A", "1"), ("B", "2"), ("A", "3"))
    ]
    assert tokens[0] == tokens[1] == tokens[3]
    assert [change.data.version for change in intake.changes] == [1, 1, 2, 1], (
        "old bytes under another id are not newer"
    )


async def test_a_version_of_the_payload_needs_no_delivery(http, versions):
    await send(
        http, "versioned", {"id": "a", "text": "A", "version": 7}, **{"x-github-delivery": "1"}
    )
    assert [(want.minimum, want.room) for want in versions.wanted] == [(7, 1)]


async def test_content_that_would_have_to_be_fetched_is_refused_where_nothing_is(
    http, intake, problem_of
):
    assert (
        problem_of(await send(http, "crm", {"id": "a", "url": "https://x/"}), 422)["errors"][0][
            "pointer"
        ]
        == "#/url"
    )
    assert intake.changes == []


async def test_a_ping_means_nothing_and_is_accepted(http, intake):
    answer = await send(http, "hub", {"zen": "Keep it logically awesome.", "hook_id": 1})
    assert (answer.status_code, answer.json(), intake.changes) == (202, {"tokens": []}, [])


async def test_a_query_of_an_address_is_the_senders_own_and_not_that_of_events(http, intake):
    raw = json.dumps({"id": "b", "text": "x"}).encode()
    signed = {
        "content-type": "application/json",
        "x-hub-signature-256": f"sha256={hmac.new(b'crm', raw, hashlib.sha256).hexdigest()}",
    }
    assert (
        await http.post("/v1/hooks/crm?utm=1&utm=2", content=raw, headers=signed)
    ).status_code == 202
    assert (
        await http.post(
            "/v1/events?utm=1",
            content=b"{}",
            headers={"content-type": "application/cloudevents+json"},
        )
    ).status_code == 422
