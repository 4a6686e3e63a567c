"""CloudEvents in each of their modes: the same events, all of a request or nothing of it."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from livedex.pipeline.ingest.sync_token import read_sync_token
from livedex.pipeline.model import DEFAULT_TENANT

STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"


def event(subject: str = "docs/a", number: str = "1", **more: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": number,
        "source": "/crm",
        "type": "livedex.document.changed",
        "subject": subject,
        "data": {"text": "words"},
    } | more


def deleted(subject: str = "docs/a", **more: Any) -> dict[str, Any]:
    return {
        k: v for k, v in event(subject, type="livedex.document.deleted").items() if k != "data"
    } | more


async def post(http: Any, body: Any, kind: str = STRUCTURED, **headers: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await http.post("/v1/events", content=content, headers={"content-type": kind} | headers)


@pytest.mark.parametrize("kind", [STRUCTURED, STRUCTURED + "; charset=utf-8", "application/json"])
async def test_a_structured_event_is_a_change(http, intake, kind):
    answer = await post(http, event(data={"text": "words", "title": "T", "version": 5}), kind)
    assert answer.status_code == 202
    [token] = answer.json()["tokens"]
    assert read_sync_token(DEFAULT_TENANT, token) == ("docs/a", 5)
    assert (intake.contents, intake.changes[0].data.title) == ({"docs/a": b"words"}, "T")


@pytest.mark.parametrize("kind", [BATCH, "application/json"])
async def test_a_batch_is_taken_in_its_order(http, intake, kind):
    answer = await post(http, [event("a", "1"), deleted("b", id="2"), event("a", "3")], kind)
    assert [read_sync_token(DEFAULT_TENANT, token)[0] for token in answer.json()["tokens"]] == [
        "a",
        "b",
        "a",
    ]
    assert [(change.data.document_id, change.data.deleted) for change in intake.changes] == [
        ("a", False),
        ("b", True),
        ("a", False),
    ]


async def test_an_empty_batch_is_nothing(http, intake):
    answer = await post(http, [], BATCH)
    assert (answer.status_code, answer.json(), intake.changes) == (202, {"tokens": []}, [])


async def test_a_binary_event_has_its_attributes_in_headers(http, intake):
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/crm",
        "ce-type": "livedex.document.changed",
        "ce-subject": "docs/%E2%82%AC%20%25",
    }
    assert (await post(http, {"text": "words"}, "application/json", **headers)).status_code == 202
    assert intake.contents == {"docs/€ %": b"words"}


async def test_a_binary_delete_needs_no_body(http, intake):
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/crm",
        "ce-type": "livedex.document.deleted",
        "ce-subject": '"docs/a"',
    }
    assert (await post(http, b"", "application/json", **headers)).status_code == 202
    assert (await http.post("/v1/events", headers=headers)).status_code == 202
    assert [(change.data.document_id, change.data.deleted) for change in intake.changes] == [
        ("docs/a", True)
    ] * 2


async def test_an_event_says_who_may_read_the_document(http, intake, problem_of):
    said = [{"text": "x", "acl": ["user:b", "user:a"]}, {"text": "x", "acl": []}, {"text": "x"}]
    assert (
        await post(http, [event(number=str(n), data=data) for n, data in enumerate(said)], BATCH)
    ).status_code == 202
    assert [change.data.acl for change in intake.changes] == [("user:a", "user:b"), (), None]
    problem = problem_of(await post(http, event(data={"text": "x", "acl": "user:a"})), 422)
    assert problem["errors"][0]["pointer"] == "#/data/acl"
    problem_of(await post(http, event(acl=["user:a"]) | deleted(data={"acl": ["user:a"]})), 422)


async def test_data_may_be_in_base64(http, intake):
    body = event(data_base64=base64.b64encode(b'{"text": "other"}').decode())
    del body["data"]
    assert (await post(http, body)).status_code == 202
    assert intake.contents == {"docs/a": b"other"}


async def test_extensions_mean_nothing(http, intake):
    assert (
        await post(http, event(tenantid="other", traceparent="00-1", tenant_id="other"))
    ).status_code == 202
    assert intake.changes[0].data.tenant_id == "default"


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"specversion": "0.3"}, "#/specversion"),
        ({"id": ""}, "#/id"),
        ({"id": 5}, "#/id"),
        ({"source": ""}, "#/source"),
        ({"type": "com.github.push"}, "#/type"),
        ({"subject": ""}, "#/subject"),
        ({"subject": None}, "#/subject"),
        ({"subject": "a\x00"}, "#/subject"),
        ({"time": "yesterday"}, "#/time"),
        ({"time": 5}, "#/time"),
        ({"time": "2026-01-01T00:00:00"}, "#/time"),
        ({"datacontenttype": "text/xml"}, "#/datacontenttype"),
        ({"data": None}, "#/data"),
        ({"data": "text"}, "#/data"),
        ({"data": {}}, "#/data/text"),
        ({"data": {"text": "a", "tenant": "b"}}, "#/data/tenant"),
        ({"data": {"text": "a", "url": "https://x/"}}, "#/data/url"),
        ({"data": {"url": "file:///etc/passwd"}}, "#/data/url"),
        ({"data": {"url": "https://x/"}}, "#/data/url"),
        ({"data_base64": "e30="}, "#/data_base64"),
        ({"type": "livedex.document.deleted"}, "#/data/text"),
    ],
)
async def test_an_event_that_is_none_is_refused_by_the_name_of_its_field(
    http, intake, problem_of, changes, pointer
):
    assert problem_of(await post(http, event(**changes)), 422)["errors"][0]["pointer"] == pointer
    problem = problem_of(await post(http, [event("good", "0"), event(**changes)], BATCH), 422)
    assert problem["errors"][0]["pointer"] == "#/1" + pointer.removeprefix("#")
    assert intake.changes == []


@pytest.mark.parametrize("body", [b"", b"{", [], "text", 5, None])
async def test_a_body_that_is_no_event_is_refused(http, intake, problem_of, body):
    problem_of(await post(http, body), 422)
    assert intake.changes == []


async def test_a_batch_is_a_list(http, problem_of):
    problem_of(await post(http, event(), BATCH), 422)


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/cloudevents+avro"])
async def test_another_content_type_is_refused(http, problem_of, kind):
    problem_of(await post(http, event(), kind), 415)
    problem_of(await post(http, event(), kind, **{"ce-id": "1"}), 415)


async def test_without_a_version_the_time_orders_as_exactly_as_it_is_written(http, versions):
    for time in (
        "2026-01-01T00:00:01Z",
        "2026-01-01T01:00:01.5+01:00",
        "2026-01-01T00:00:01.000001Z",
        "1969-01-01T00:00:00Z",
    ):
        await post(http, event(time=time))
    second = 1_767_225_601 * 10**9
    assert [(want.minimum, want.room) for want in versions.wanted] == [
        (second, 10**9),
        (second + 500_000_000, 10**6),
        (second + 1000, 1000),
        (0, 10**9),
    ]
    await post(http, event(time="2026-01-01T00:00:01Z", data={"text": "a", "version": 3}))
    assert (versions.wanted[-1].minimum, versions.wanted[-1].room) == (3, 1)


@pytest.mark.parametrize(
    ("ahead", "orders"),
    [(timedelta(minutes=10), True), (timedelta(days=2), False), (timedelta(days=100_000), False)],
)
async def test_a_clock_that_is_far_ahead_orders_nothing(http, versions, ahead, orders):
    at = datetime.now(UTC) + ahead
    assert (await post(http, event(time=at.isoformat()))).status_code == 202
    [want] = versions.wanted
    assert (want.minimum > datetime.now(UTC).timestamp() * 10**9, want.room <= 10**9) == (
        orders,
        orders,
    )


async def test_what_comes_again_is_known_by_source_and_id(http, versions, intake):
    first, again, other_source, other_id = [
        (await post(http, body)).json()["tokens"]
        for body in (event(), event(), event(source="/wiki"), event(id="2"))
    ]
    assert first == again
    assert len({first[0], other_source[0], other_id[0]}) == 3
    assert intake.changes[0].data.fence == intake.changes[1].data.fence


async def test_a_batch_beyond_all_measure_is_refused(http, problem_of, monkeypatch):
    monkeypatch.setattr("livedex.pipeline.api.cloudevents_binding.MAX_BATCH_EVENTS", 3)
    problem_of(await post(http, [event(number=str(n)) for n in range(4)], BATCH), 422)
