"""Payloads read by JMESPath: every field, one document or many, and what has the wrong type."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from livedex.connectors.webhook.hooks import payload_reader
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.settings.webhook_source import WebhookSource

MAP = {
    "document_id": "page.id",
    "version": "page.version",
    "text": "page.body",
    "title": "page.title",
    "deleted": "event == 'page_removed'",
    "url": "page.url",
    "metadata": "page.labels",
    "collection": "page.space",
    "mime_type": "page.type",
    "uri": "page.link",
    "event_id": "id",
}


def source(expressions: dict[str, str] | None = None, **more: Any) -> WebhookSource:
    made = expressions or MAP
    order = {} if "version" in made else {"order": "arrival"}
    return WebhookSource(
        **{"name": "crm", "secret_env": "S", "signature": "github", "map": made} | order | more
    )


def read(page: dict[str, Any], made: WebhookSource | None = None, **more: Any) -> ChangeRequest:
    [item] = payload_reader(made or source())(
        {"event": "page_updated", "page": {"id": "a", "body": "x"} | page, **more}
    )
    return item


def test_every_field_is_mapped() -> None:
    page = {
        "id": "a/b",
        "version": 7,
        "body": "text",
        "title": "T",
        "labels": {"k": [1]},
        "space": "s",
        "type": "text/plain",
        "link": "https://x/",
    }
    item = read(page, source(metadata={"team": "ops", "k": 0}, collection="c"), id=5)
    assert item == ChangeRequest(
        item.document_id,
        content=b"text",
        version=7,
        delivery_id="5",
        mime_type="text/plain",
        title="T",
        uri="https://x/",
        collection="s",
        metadata={"team": "ops", "k": [1]},
    )
    assert item.document_id == "a/b"


def test_what_the_payload_does_not_say_is_said_by_the_source() -> None:
    item = read({}, source(metadata={"team": "ops"}, collection="c"))
    assert (item.collection, item.metadata, item.version, item.mime_type) == (
        "c",
        {"team": "ops"},
        None,
        "text/markdown",
    )


@pytest.mark.parametrize(
    ("page", "of_source", "acl"),
    [
        ({"readers": ["b", "a", "b"]}, None, ("a", "b")),
        ({"readers": "group:a b"}, None, ("group:a b",)),
        ({"readers": ["*"]}, None, ("*",)),
        ({"readers": []}, ["s"], ()),
        ({}, ["s"], ("s",)),
        ({"readers": None}, None, ()),
        ({}, None, ()),
    ],
)
def test_rights_that_a_map_does_not_find_are_those_of_the_source_or_nobodys(
    page: Any, of_source: Any, acl: Any
) -> None:
    assert read(page, source(MAP | {"acl": "page.readers"}, acl=of_source)).acl == acl


@pytest.mark.parametrize(
    "readers", [7, {"a": 1}, "", ["a", ""], [None], [["a"]], ["a\x00"], ["a"] * 1001]
)
def test_rights_without_sense_are_refused_and_do_not_let_everybody_in(readers: Any) -> None:
    with pytest.raises(RequestValidationError) as refused:
        read({"readers": readers}, source(MAP | {"acl": "page.readers"}))
    assert refused.value.errors()[0]["loc"][0] == "acl"


def test_without_rights_in_the_map_a_document_has_those_of_its_source() -> None:
    assert read({"readers": ["a"]}, source(acl=["s"])).acl == ("s",)
    assert read({"readers": ["a"]}).acl is None


def test_a_delete_needs_no_content() -> None:
    [item] = payload_reader(source())({"event": "page_removed", "page": {"id": 16777227}})
    assert (item.document_id, item.deleted, item.content) == ("16777227", True, None)


@pytest.mark.parametrize(
    ("given", "version"),
    [
        (0, 0),
        (2**60, 2**60),
        (str(2**60), 2**60),
        ("17", 17),
        (17.0, 17),
        (1_700_000_000_000, 1_700_000_000_000),
    ],
)
def test_a_version_is_a_whole_number(given: Any, version: int) -> None:
    assert read({"version": given}).version == version


@pytest.mark.parametrize(
    ("given", "at_ns", "exact_ns"),
    [
        ("2026-01-01T00:00:01Z", 1_767_225_601_000_000_000, 10**9),
        ("2026-01-01T01:00:01.5+01:00", 1_767_225_601_500_000_000, 10**6),
    ],
)
def test_a_time_is_a_version_as_exactly_as_it_is_written(
    given: str, at_ns: int, exact_ns: int
) -> None:
    item = read({"version": given})
    assert (item.version, item.occurred_at_ns, item.precision_ns) == (None, at_ns, exact_ns)


@pytest.mark.parametrize(
    ("page", "field"),
    [
        ({"id": None}, "document_id"),
        ({"id": ""}, "document_id"),
        ({"id": ["a"]}, "document_id"),
        ({"id": True}, "document_id"),
        ({"id": "x" * 2001}, "document_id"),
        ({"version": "soon"}, "version"),
        ({"version": -1}, "version"),
        ({"version": 2**63}, "version"),
        ({"version": 2**63 - 1}, "version"),
        ({"version": str(2**62)}, "version"),
        ({"version": True}, "version"),
        ({"version": 1.5}, "version"),
        ({"version": []}, "version"),
        ({"version": "2026-01-01"}, "version"),
        ({"body": 5}, "text"),
        ({"body": None}, "text"),
        ({"body": {}}, "text"),
        ({"url": "https://x/"}, "text"),
        ({"body": None, "url": "ftp://x/"}, "url"),
        ({"body": None, "url": 5}, "url"),
        ({"title": 5}, "title"),
        ({"labels": []}, "metadata"),
        ({"labels": "x"}, "metadata"),
        ({"space": 5}, "collection"),
        ({"space": ""}, "collection"),
        ({"type": {}}, "mime_type"),
        ({"link": 1}, "uri"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_field(
    page: dict[str, Any], field: str
) -> None:
    with pytest.raises(RequestValidationError) as refused:
        read(page)
    assert refused.value.errors()[0]["loc"][0] == field


def test_deleted_is_true_or_false() -> None:
    made = source({"document_id": "id", "text": "body", "deleted": "gone"})
    assert not payload_reader(made)({"id": "a", "body": "x", "gone": None})[0].deleted
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(made)({"id": "a", "body": "x", "gone": "yes"})
    assert refused.value.errors()[0]["loc"] == ("deleted",)


def test_a_payload_may_hold_several_documents() -> None:
    made = source(
        {
            "items": "events[?kind == 'page'].page",
            "document_id": "id",
            "text": "body",
            "when": "!draft",
        }
    )
    payload = {
        "events": [
            {"kind": "page", "page": {"id": 1, "body": "a"}},
            {"kind": "user"},
            {"kind": "page", "page": {"id": 2, "body": "b", "draft": True}},
            {"kind": "page", "page": {"id": 3, "body": "c"}},
        ]
    }
    assert [(item.document_id, item.content) for item in payload_reader(made)(payload)] == [
        ("1", b"a"),
        ("3", b"c"),
    ]
    assert payload_reader(made)({"events": []}) == payload_reader(made)({}) == []
    payload["events"][3]["page"]["id"] = None  # type: ignore[index]
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(made)(payload)
    assert refused.value.errors()[0]["loc"] == (2, "document_id")
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(source({"items": "events", "document_id": "id", "text": "body"}))(
            {"events": {"a": 1}}
        )
    assert refused.value.errors()[0]["loc"] == ("items",)


def test_payloads_that_do_not_count_mean_nothing() -> None:
    made = source({"when": "event != 'ping'", "document_id": "id", "text": "body"})
    assert payload_reader(made)({"event": "ping"}) == []
    assert len(payload_reader(made)({"event": "x", "id": "a", "body": "b"})) == 1


def test_an_expression_that_cannot_be_applied_is_a_refusal_of_the_payload() -> None:
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(source({"document_id": "id", "text": "join(' ', parts)"}))(
            {"id": "a", "parts": 5}
        )
    assert refused.value.errors()[0]["loc"] == ("text",)


def test_a_payload_that_is_nested_too_deeply_for_an_expression_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(source({"document_id": "id", "text": "to_string(@)"}))(
            {"id": "a", "x": deep}
        )
    assert refused.value.errors()[0]["loc"] == ("text",)


@pytest.mark.parametrize("payload", [None, [], "x", 5, {"page": []}])
def test_any_json_is_a_payload(payload: Any) -> None:
    with pytest.raises(RequestValidationError):
        payload_reader(source())(payload)


def test_an_expression_that_is_none_starts_nothing() -> None:
    with pytest.raises(ConfigError, match=r"crm: map\.text"):
        payload_reader(source({"document_id": "id", "text": "page.["}))


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("foo(page)", "no function foo"),
        ("page.[foo(a)]", "no function foo"),
        ("rows[?foo(a)] | [0]", "no function foo"),
        ("join(' ')", "2 arguments"),
        ("length(a, b)", "1 argument,"),
        ("merge()", "at least 1"),
        ("max_by(rows, n)", "&"),
        ("map(a, rows)", "&"),
        ("(" * 3000 + "a", "text"),
    ],
)
def test_an_expression_that_no_payload_can_satisfy_starts_nothing(
    expression: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)) as refused:
        payload_reader(source({"document_id": "id", "text": expression}))
    assert "crm: map.text" in str(refused.value) and "\n" not in str(refused.value)


ROWS = [{"n": "a"}, {"n": 1}]
SECRET = "what stands in the payload " * 50


@pytest.mark.parametrize("field", ["items", "when", "document_id", "version", "text", "metadata"])
@pytest.mark.parametrize(
    ("expression", "given"),
    [
        *(
            ("floor(to_number(v))", number)
            for number in ("nan", "inf", "-inf", "1e400", "9" * 5000)
        ),
        ("ceil(to_number(v))", "nan"),
        ("max_by(v, &n)", ROWS),
        ("min_by(v, &n)", ROWS),
        ("sort_by(v, &n)", ROWS),
        ("sort(v)", ["a", 1]),
        ("max(v)", ["a", 1]),
        ("sum(v)", ["a"]),
        ("avg(v)", [None]),
        ("max_by(v, &n)", [{"n": None}]),
        ("keys(v)", SECRET),
        ("join(',', v)", [SECRET, 1]),
        ("abs(v)", SECRET),
        ("join(v, v)", [SECRET]),
    ],
)
def test_whatever_an_expression_meets_in_a_payload_is_a_refusal_that_names_it(
    field: str, expression: str, given: Any
) -> None:
    made = source({"document_id": "id", "text": "body"} | {field: expression})
    payload = {"id": "a", "body": "x", "v": given}
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(made)(payload)
    [error] = refused.value.errors()
    assert error["loc"] == (field,) and f"map.{field}" in error["msg"] and "`when`" in error["msg"]
    assert "stands in the payload" not in error["msg"] and len(error["msg"]) < 300


@pytest.mark.parametrize(
    ("field", "expression", "given"),
    [
        ("version", "v", "0001-01-01T00:00:00+14:00"),
        ("version", "v", "9999-12-31T23:59:59-14:00"),
        ("version", "v", "1e400"),
        ("version", "v", "nan"),
        ("version", "to_number(v)", "nan"),
        ("version", "to_number(v)", "1e400"),
        ("version", "v", "9" * 5000),
        ("document_id", "to_number(v)", "inf"),
        ("metadata", "{n: to_number(v)}", "nan"),
        ("metadata", "{n: [to_number(v)]}", "1e400"),
        ("metadata", "{n: sum(v)}", [2**63, 2**63]),
        ("metadata", "{n: &v}", 1),
        ("document_id", "&v", 1),
        ("items", "&v", 1),
    ],
)
def test_what_an_expression_gives_and_no_document_can_have_is_refused(
    field: str, expression: str, given: Any
) -> None:
    with pytest.raises(RequestValidationError) as refused:
        payload_reader(source({"document_id": "id", "text": "body"} | {field: expression}))(
            {"id": "a", "body": "x", "v": given}
        )
    assert refused.value.errors()[0]["loc"][0] == field


@pytest.mark.parametrize(
    "wrong",
    [
        {"map": None},
        {"preset": "s3"},
        {"preset": "jira", "map": None},
        {"map": {"text": "x"}},
        {"map": {"document_id": "id", "txt": "x"}},
        {"secret_env": []},
        {"signature": "hmac"},
        {"signature": "rsa"},
        {"secret": "abc"},
        {"name": "a/b"},
        {"signature": "hmac", "header": "X Y"},
        {"base_url": "ftp://x"},
    ],
)
def test_a_source_without_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        source(**wrong)
