"""What others write into records: bounded, and refused where it would vanish, block a document, or
take long to say what is wrong with it.
"""

from __future__ import annotations

import time
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.decoder import MAX_RECORD_BYTES, decode_event
from livedex.pipeline.events.event import Changed, ManifestRef
from livedex.pipeline.events.version_limits import max_version

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DAY_NS = 24 * 3600 * 10**9


def record(kind: str = "changed", **data: Any) -> bytes:
    whole = {"tenant_id": "acme", "document_id": "d", "version": 1, **data}
    body = {
        "specversion": "1.0",
        "id": "1",
        "source": "/crm",
        "type": f"livedex.document.{kind}",
        "data": whole,
    }
    return orjson.dumps(body)


def raw_version(text: str) -> bytes:
    return record(text="a", version=987654321).replace(b"987654321", text.encode())


@pytest.mark.parametrize(
    "version", ["0", "7", "7.0", '"7"', '"0007"', str(2**53 + 1), f'"{2**53 + 1}"', str(2**60)]
)
def test_a_version_is_a_whole_number_or_a_string_of_digits(version: str) -> None:
    assert decode_event(raw_version(version), Changed, NOW).data.version == int(
        version.strip('"').removesuffix(".0")
    )


@pytest.mark.parametrize(
    "version",
    [
        "-1",
        "1.5",
        "987654321e-3",
        "1e300",
        str(2**62),
        str(2**63 - 1),
        str(2**63),
        str(2**64),
        "9" * 400,
        f'"{2**63 - 1}"',
        "true",
        "null",
        "[]",
        "{}",
        '"-1"',
        '"1.0"',
        '" 1"',
        '"\u0661"',
        '""',
        f'"{"1" * 20}"',
    ],
)
def test_a_version_that_nobody_may_give_is_refused(version: str) -> None:
    with pytest.raises(RejectedError):
        decode_event(raw_version(version), Changed, NOW)


def test_a_version_has_a_bound_for_others_and_none_for_what_was_accepted_before() -> None:
    beyond = record(text="a", version=max_version() + DAY_NS)
    with pytest.raises(RejectedError, match=r"data\.version"):
        decode_event(beyond, Changed, NOW)
    assert decode_event(beyond, Changed, NOW, ours=True).data.version > time.time_ns()
    assert (
        decode_event(
            record(text="a", version=time.time_ns() + DAY_NS // 2), Changed, NOW
        ).data.version
        > time.time_ns()
    )


@pytest.mark.parametrize(
    ("kind", "data", "field"),
    [
        ("changed", {"text": "a", "any_version": True}, "any_version"),
        ("changed", {"url": "https://a/", "any_version": True}, "any_version"),
        ("deleted", {"text": "a", "any_version": True}, "content"),
        ("deleted", {"text": "a"}, "content"),
        ("deleted", {"url": "https://a/"}, "url"),
        ("deleted", {"listing": True}, "listing"),
        ("changed", {"text": "a", "unreadable": "why"}, "content"),
        ("changed", {"text": "a", "url": "https://a/"}, "url"),
        ("changed", {"content": "YQ==", "blob": "0" * 64}, "blob"),
        ("changed", {}, "content"),
        ("changed", {"text": None}, "content"),
        ("changed", {"title": "t"}, "content"),
        ("changed", {"text": "a", "txet": "b"}, "txet"),
        ("changed", {"text": "a", "tenant_id": "_unknown"}, "tenant_id"),
        ("changed", {"text": "a", "acl": ["x"] * 1001}, "acl"),
        ("changed", {"text": "a", "metadata": {"a": "x" * 300_000}}, "metadata"),
    ],
)
def test_what_contradicts_itself_or_would_vanish_is_refused_by_the_name_of_the_field(
    kind: str, data: dict[str, Any], field: str
) -> None:
    with pytest.raises(RejectedError, match=rf"data\.{field}") as refused:
        decode_event(record(kind, **data), Changed, NOW)
    assert refused.value.reason == "invalid_event"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("changed", {"text": ""}),
        ("changed", {"content": ""}),
        ("changed", {"url": "https://a/"}),
        ("changed", {"unreadable": "why"}),
        ("deleted", {}),
        ("deleted", {"any_version": True}),
        ("changed", {"text": "a", "acl": []}),
        ("changed", {"listing": True, "url": "https://a/", "content": "YQ=="}),
    ],
)
def test_what_makes_sense_is_read(kind: str, data: dict[str, Any]) -> None:
    assert (
        decode_event(b"\xef\xbb\xbf" + record(kind, **data), Changed, NOW).data.document_id == "d"
    )


MANY = {f"field{n}": n for n in range(200_000)}


@pytest.mark.parametrize(
    "raw",
    [
        record(text="a", **MANY),
        orjson.dumps({**orjson.loads(record(text="a")), **MANY}),
        record(text="a", acl=[f"p {n} " for n in range(200_000)]),
        record(text="a", metadata=MANY),
        record(text="a", metadata={"a": [[]] * 1_000_000}),
        b"[" * 2_000_000,
        b" " * (MAX_RECORD_BYTES + 1),
        record(text="a" * MAX_RECORD_BYTES),
        orjson.dumps([MANY]),
    ],
    ids=[
        "fields",
        "attributes",
        "principals",
        "metadata",
        "nesting",
        "brackets",
        "blanks",
        "text",
        "a list",
    ],
)
@pytest.mark.parametrize("payload", [Changed, ManifestRef])
def test_what_is_wrong_with_a_huge_record_is_said_shortly_and_without_noting_each_thing(
    raw: bytes, payload: type[Changed | ManifestRef]
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RejectedError) as refused:
            decode_event(raw, payload, NOW)
        assert len(str(refused.value)) < 400
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()
