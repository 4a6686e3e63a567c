"""From a record of Kafka to one of ours and back, byte for byte."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from livedex.consumers.kafka.records import (
    decode_record,
    decode_text_as_bytes,
    encode_bytes_as_text,
    from_kafka,
    original_key_and_value,
)
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import CHUNKED
from livedex.pipeline.flow import stage

CHUNK = stage("chunk")
AT = 1_760_000_000_123


def raw(
    key: bytes | None,
    value: bytes | None,
    headers: Any = (),
    timestamp: int = AT,
    topic: str = "mine.livedex.changed",
) -> Any:
    """A record as aiokafka delivers it."""
    return SimpleNamespace(
        topic=topic,
        partition=2,
        offset=7,
        key=key,
        value=value,
        headers=headers,
        timestamp=timestamp,
    )


@given(st.binary(max_size=60))
@example(b"")
@example(b"\x00")
@example(b"\xff")
@example(b"base64:")
@example(b"base64:YWI=")
@example("é".encode())
def test_any_bytes_survive_as_text_that_postgresql_can_hold(given: bytes) -> None:
    text = encode_bytes_as_text(given)
    assert decode_text_as_bytes(text) == given
    assert "\x00" not in text and text.encode().decode() == text
    assert orjson.loads(orjson.dumps(text)) == text


def test_plain_text_stays_as_it_is() -> None:
    assert encode_bytes_as_text("acme/Über uns.md".encode()) == "acme/Über uns.md"


@given(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20))
@example(None, None)
@example(b"", b"")
@example(None, b"")
@example(b"", None)
def test_key_and_value_of_a_letter_are_what_stood_in_kafka(
    key: bytes | None, value: bytes | None
) -> None:
    record = from_kafka(raw(key, value), "mine.")
    kept = orjson.loads(orjson.dumps(dict(record.place)))  # as the table of letters keeps it
    assert original_key_and_value(record.payload or b"", kept) == (key, value)


def test_a_record_says_where_it_stood_without_the_prefix_of_the_installation() -> None:
    record = from_kafka(
        raw(b"acme/a.md", b"{}", [("trace", b"\xff"), ("none", None), ("caf\udce9", b"x")]), "mine."
    )
    assert (record.id, record.topic) == ("mine.livedex.changed-2-7", "livedex.changed")
    assert record.place == {"partition": 2, "offset": 7, "key": "acme/a.md"}
    assert {decode_text_as_bytes(name): told for name, told in record.headers.items()} == {
        b"trace": encode_bytes_as_text(b"\xff"),
        b"none": None,
        b"caf\xe9": "x",
    }
    assert record.at == datetime(2025, 10, 9, 8, 53, 20, 123_000, UTC)


@pytest.mark.parametrize("timestamp", [-1, -(2**63), 253_402_300_800_000, 2**62, 2**63 - 1])
def test_a_time_that_makes_no_sense_or_is_to_come_is_now(timestamp: int) -> None:
    before = time.time()
    at = from_kafka(raw(None, b"{}", timestamp=timestamp), "").at
    assert at is not None and before <= at.timestamp() <= time.time()


def test_a_key_without_a_value_is_a_delete_of_what_was_accepted_before_it() -> None:
    record = from_kafka(raw(b"acme/docs/a/b.md", None), "mine.")
    event, again = decode_record(record, CHUNK), decode_record(record, CHUNK)
    data = event.data
    assert (data.tenant_id, data.document_id, data.deleted, data.any_version) == (
        "acme",
        "docs/a/b.md",
        True,
        True,
    )
    assert (event.id, event.accepted) == (again.id, again.accepted), (
        "delivered again it is the same event"
    )
    assert record.at is not None and 0 <= (event.accepted - record.at).total_seconds() < 0.001


def test_a_key_in_another_alphabet_names_its_document() -> None:
    assert (
        decode_record(
            from_kafka(raw("acme/Übersicht 概要.md".encode(), None), "mine."), CHUNK
        ).data.document_id
        == "Übersicht 概要.md"
    )


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"acme",
        b"acme/",
        b"/a.md",
        b"/",
        b"\xff/a.md",
        b"acme/\x00",
        b"base64:YQ==/a.md",
        b"acme/" + b"x" * 2001,
        b"x" * 201 + b"/a",
    ],
)
def test_a_key_that_names_no_document_is_refused(key: bytes | None) -> None:
    with pytest.raises(RejectedError) as refused:
        decode_record(from_kafka(raw(key, None), "mine."), CHUNK)
    assert refused.value.reason == "invalid_event"


def test_between_the_stages_a_key_without_a_value_is_no_delete() -> None:
    with pytest.raises(RejectedError, match="empty"):
        decode_record(
            from_kafka(raw(b"acme/a.md", None, topic=f"mine.{CHUNKED}"), "mine."), stage("embed")
        )
