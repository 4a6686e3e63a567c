"""PUT and DELETE of one document: what is taken, what is refused, and when 202 may be said."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator

import jsonschema
import pytest
from pydantic import ValidationError

from livedex.pipeline.errors import OutageError
from livedex.pipeline.http import body_budget as admission
from livedex.pipeline.ingest import request_ingester as receiver
from livedex.pipeline.ingest.change_request import LinkedBody
from livedex.pipeline.ingest.sync_token import read_sync_token
from livedex.pipeline.model import DEFAULT_TENANT
from tests.unit.webhook.conftest import MAX_DOCUMENT_BYTES


@pytest.mark.parametrize(
    "document_id",
    [
        "a",
        "a/b/../c.md",
        "ümlaut and blank",
        "q?x=1#y",
        "50%",
        "line\nbreak",
        "quote'\";--",
        "a/chunks",
        "//",
        "é" * 1000,
    ],
)
async def test_a_document_of_any_name_is_taken_and_its_token_names_it(http, intake, document_id):
    from urllib.parse import quote

    answer = await http.put(f"/v1/documents/{quote(document_id, safe='')}", json={"text": "words"})
    assert answer.status_code == 202
    body = answer.json()
    assert body["document_id"] == document_id
    assert read_sync_token(DEFAULT_TENANT, body["token"]) == (document_id, body["version"])
    assert intake.contents == {document_id: b"words"}


async def test_everything_that_is_said_of_a_document_arrives(http, intake, versions):
    said = {
        "content_base64": base64.b64encode(b"\x00\xff").decode(),
        "mime_type": "application/pdf",
        "title": "T",
        "uri": "https://x/y",
        "metadata": {"deep": [{"a": None}]},
        "collection": "c",
        "version": 7,
        "acl": ["user:b", "user:a", "user:b"],
    }
    assert (await http.put("/v1/documents/d", json=said)).json()["version"] == 7
    [change] = intake.changes
    data = change.data
    assert change.content == b"\x00\xff"
    assert (
        data.tenant_id,
        data.version,
        data.mime_type,
        data.title,
        data.uri,
        data.metadata,
        data.collection,
        data.acl,
    ) == (
        "default",
        7,
        "application/pdf",
        "T",
        "https://x/y",
        {"deep": [{"a": None}]},
        "c",
        ("user:a", "user:b"),
    )
    assert versions.tenants == ["default"]


@pytest.mark.parametrize(
    ("said", "acl"),
    [
        ({}, None),
        ({"acl": None}, None),
        ({"acl": ["*", "a"]}, None),
        ({"acl": []}, ()),
        ({"acl": ["a"]}, ("a",)),
    ],
)
async def test_a_document_without_a_list_is_for_everybody_and_one_with_an_empty_list_for_nobody(
    http, intake, said, acl
):
    assert (await http.put("/v1/documents/d", json={"text": "x"} | said)).status_code == 202
    assert intake.changes[0].data.acl == acl


@pytest.mark.parametrize(
    "acl",
    [
        "user:a",
        {"a": 1},
        7,
        [7],
        [None],
        [""],
        ["a\x00"],
        ["a" * 257],
        [["a"]],
        [" a"],
        ["a"] * 1001,
    ],
)
async def test_rights_without_sense_are_refused_and_nothing_is_taken(http, intake, problem_of, acl):
    problem = problem_of(await http.put("/v1/documents/d", json={"text": "x", "acl": acl}), 422)
    assert problem["errors"][0]["pointer"].startswith("#/acl")
    assert intake.changes == []


@pytest.mark.parametrize(
    ("document_id", "mime_type"),
    [
        ("notes", "text/markdown"),
        ("notes.md", None),
        ("a.py", None),
        ("report.pdf", "text/markdown"),
        ("v1.2", "text/markdown"),
    ],
)
async def test_a_text_is_markdown_unless_its_id_says_that_it_is_another_text(
    http, intake, document_id, mime_type
):
    await http.put(f"/v1/documents/{document_id}", json={"text": "x"})
    assert intake.changes[0].data.mime_type == mime_type


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "text"),
        ({"title": "x"}, "text"),
        ({"text": "a", "content_base64": "YQ=="}, "text"),
        ({"content_base64": "%%"}, "content_base64"),
        ({"text": "a", "tenant": "b"}, "tenant"),
        ({"text": "a", "tenant_id": "b"}, "tenant_id"),
        ({"text": 1}, "text"),
        ({"text": "a", "version": "1.0"}, "version"),
        ({"text": "a", "version": "1" * 20}, "version"),
        ({"text": "a", "version": " 1"}, "version"),
        ({"text": "a", "version": "-1"}, "version"),
        ({"text": "a", "version": ""}, "version"),
        ({"text": "a", "version": 2**63 - 1}, "version"),
        ({"text": "a", "version": str(2**63 - 1)}, "version"),
        ({"text": "a", "version": 1e30}, "version"),
        ({"text": "a", "version": []}, "version"),
        ({"text": "a", "version": -1}, "version"),
        ({"text": "a", "version": 2**63}, "version"),
        ({"text": "a", "version": True}, "version"),
        ({"text": "a", "version": 1.5}, "version"),
        ({"text": "a", "collection": ""}, "collection"),
        ({"text": "a", "collection": "a\x00"}, "collection"),
        ({"text": "a", "metadata": []}, "metadata"),
        ({"text": "a", "metadata": {"a": "x" * 70_000}}, "metadata"),
        ({"text": "a", "url": "http://x/"}, "url"),
        ([], "body"),
        ("text", "body"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_the_name_of_its_field(
    http, intake, problem_of, body, field
):
    problem = problem_of(await http.put("/v1/documents/d", json=body), 422)
    assert problem["errors"][0]["pointer"] == f"#/{field}"
    assert intake.changes == []


@pytest.mark.parametrize("raw", [b"", b"{", b'{"text": NaN}', b'{"text": "\xff"}', b"[" * 5000])
async def test_a_body_that_is_no_json_is_refused(http, intake, problem_of, raw):
    problem_of(
        await http.put(
            "/v1/documents/d", content=raw, headers={"content-type": "application/json"}
        ),
        422,
    )
    assert intake.changes == []


async def test_half_a_character_in_a_body_is_replaced(http, intake):
    raw = rb'{"text": "ab\ud83d", "title": "\udc00", "metadata": {"k\ud800": ["\ud83d\ude00"]}}'
    assert (
        await http.put("/v1/documents/d", content=raw, headers={"content-type": "application/json"})
    ).status_code == 202
    [change] = intake.changes
    assert (change.content, change.data.title, change.data.metadata) == (
        "ab\ufffd".encode(),
        "\ufffd",
        {"k\ufffd": ["😀"]},
    )


async def test_metadata_that_nests_without_end_is_refused(http, problem_of):
    deep: dict = {}
    for _ in range(100):
        deep = {"a": deep}
    assert (
        problem_of(await http.put("/v1/documents/d", json={"text": "a", "metadata": deep}), 422)[
            "errors"
        ][0]["pointer"]
        == "#/metadata"
    )


@pytest.mark.parametrize("name", ["", "x" * 2001, "a%00b"])
async def test_a_name_that_no_document_can_have_is_refused(http, intake, problem_of, name):
    problem_of(await http.put(f"/v1/documents/{name}", json={"text": "a"}), 422)
    problem_of(await http.delete(f"/v1/documents/{name}"), 422)
    assert intake.changes == []


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_body_that_does_not_say_that_it_is_json_is_refused(http, problem_of, kind):
    problem_of(
        await http.put(
            "/v1/documents/d",
            content=b'{"text": "a"}',
            headers={"content-type": kind} if kind else {},
        ),
        415,
    )


async def test_a_document_as_large_as_allowed_is_taken_and_one_byte_more_is_not(
    http, intake, problem_of
):
    assert (
        await http.put("/v1/documents/d", json={"text": "\n" * MAX_DOCUMENT_BYTES})
    ).status_code == 202
    encoded = base64.b64encode(bytes(MAX_DOCUMENT_BYTES)).decode()
    assert (await http.put("/v1/documents/d", json={"content_base64": encoded})).status_code == 202
    problem_of(
        await http.put("/v1/documents/d", json={"text": "x" * (MAX_DOCUMENT_BYTES + 1)}), 413
    )
    assert len(intake.changes) == 2


async def test_a_stream_without_end_is_not_read_to_its_end(http, problem_of):
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65_536
            yield bytes(65_536)

    problem_of(
        await http.put(
            "/v1/documents/d", content=endless(), headers={"content-type": "application/json"}
        ),
        413,
    )
    assert sent < 10 * MAX_DOCUMENT_BYTES


@pytest.fixture
def hasty(monkeypatch):
    """Bodies have to come at once; asked for before the app is made."""
    monkeypatch.setattr(admission, "READ_TIMEOUT_S", 0.05)


async def test_a_body_that_does_not_come_is_not_waited_for(hasty, http, problem_of):

    async def silent() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    problem_of(
        await http.put(
            "/v1/documents/d", content=silent(), headers={"content-type": "application/json"}
        ),
        408,
    )


async def _refused() -> None:
    raise OutageError("broker", "connection refused", retry_after_s=7)


async def _never() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("broker", [_refused, _never])
async def test_202_is_only_said_once_the_broker_holds_it(
    http, intake, problem_of, monkeypatch, broker
):
    monkeypatch.setattr(receiver, "ACCEPT_TIMEOUT_S", 0.05)
    held, intake.broker = intake.broker, broker
    for answer in (
        await http.put("/v1/documents/d", json={"text": "a", "version": 1}),
        await http.delete("/v1/documents/d"),
    ):
        problem_of(answer, 503)
        assert int(answer.headers["retry-after"]) >= 1
    assert intake.changes == []
    intake.broker = held
    assert (await http.put("/v1/documents/d", json={"text": "a", "version": 1})).status_code == 202
    assert [change.data.version for change in intake.changes] == [1]


async def test_an_answer_comes_in_bounded_time_when_too_much_is_under_way(
    http, intake, problem_of, monkeypatch
):
    monkeypatch.setattr(admission, "WAIT_TIMEOUT_S", 0.05)
    go_on = asyncio.Event()

    async def wait() -> None:
        await go_on.wait()

    intake.broker = wait
    under_way = [
        asyncio.create_task(http.put(f"/v1/documents/{n}", json={"text": "a"})) for n in range(80)
    ]
    refused: set[asyncio.Task] = set()
    while len(refused) < 16:
        done, _ = await asyncio.wait(set(under_way) - refused, return_when=asyncio.FIRST_COMPLETED)
        refused |= done
    for task in refused:
        problem_of(task.result(), 503)
        assert int(task.result().headers["retry-after"]) >= 1
    go_on.set()
    answers = await asyncio.gather(*(task for task in under_way if task not in refused))
    assert {answer.status_code for answer in answers} == {202}
    assert len(intake.changes) == len(answers) == 64


async def test_a_delete_may_name_its_version(http, intake):
    answer = await http.delete("/v1/documents/a/b", params={"version": 9})
    assert answer.status_code == 202
    assert (answer.json()["document_id"], answer.json()["version"]) == ("a/b", 9)
    assert intake.changes[0].data.deleted
    assert (await http.delete("/v1/documents/a/b", params={"version": -1})).status_code == 422
    misspelt = await http.delete("/v1/documents/a/b", params={"verson": 3})
    assert (misspelt.status_code, "version" in misspelt.json()["detail"]) == (422, True)
    assert (await http.put("/v1/documents/a/b?version=3", json={"text": "a"})).status_code == 422, (
        "that stands in the body"
    )
    assert len(intake.changes) == 1


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "identity, deflate", "x", "aws-chunked"])
@pytest.mark.parametrize("place", ["/v1/documents/d", "/v1/events"])
async def test_a_compressed_body_is_refused_with_what_to_do(
    http, intake, problem_of, place, coding
):
    body = gzip.compress(b'{"text": "words"}')
    headers = {"content-type": "application/json", "content-encoding": coding}
    answer = await http.request(
        "PUT" if "documents" in place else "POST", place, content=body, headers=headers
    )
    assert (
        "without Content-Encoding" in problem_of(answer, 415)["detail"]
        and answer.headers["accept-encoding"] == "identity"
    )
    assert intake.changes == []


@pytest.mark.parametrize("coding", ["identity", "Identity", "", "identity, identity"])
async def test_a_body_that_says_it_is_as_it_is_is_taken(http, intake, coding):
    assert (
        await http.put(
            "/v1/documents/d", json={"text": "words"}, headers={"content-encoding": coding}
        )
    ).status_code == 202
    assert intake.contents == {"d": b"words"}


@pytest.mark.parametrize(
    ("given", "taken"),
    [("HTTP://x/A", "http://x/A"), ("hTTps://x/?Q", "https://x/?Q"), ("https://x/", "https://x/")],
)
def test_the_scheme_of_a_url_may_be_written_in_capitals(given: str, taken: str) -> None:
    body = LinkedBody.model_validate({"url": given})
    assert body.url == taken
    jsonschema.validate(given, LinkedBody.model_json_schema()["properties"]["url"]["anyOf"][0])


@pytest.mark.parametrize("given", ["ftp://x/", "http:x", "HTTP:/x", "//x/", "x", ""])
def test_a_url_of_another_scheme_is_none(given: str) -> None:
    with pytest.raises(ValidationError):
        LinkedBody.model_validate({"url": given})
