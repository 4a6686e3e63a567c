"""Events: what is encoded is decoded, the fence depends on content alone, and the newest wins by
one rule.
"""

import base64
import json

import pytest

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.decoder import decode_event
from livedex.pipeline.events.event import (
    CHUNKED,
    Changed,
    ManifestRef,
    change_event,
    next_stage_event,
)


def change(version: int = 1, text: str = "a", **fields: object) -> Changed:
    content = base64.b64encode(text.encode()).decode()
    return Changed(
        tenant_id="t",
        document_id="d/ä\n.md",
        version=version,
        content=content,
        size_bytes=len(text.encode()),
        **fields,
    )  # type: ignore[arg-type]


def test_an_event_survives_its_encoding() -> None:
    event = change_event(change(metadata={"k": ["v", 1, None]}, title="T"))
    assert decode_event(event.encode(), Changed) == event
    following = next_stage_event(CHUNKED, event, event.data.fence)
    assert decode_event(following.encode(), ManifestRef) == following
    assert (following.id, following.accepted, following.data.fence) == (
        event.id,
        event.accepted,
        event.data.fence,
    )


def test_it_is_a_cloud_event() -> None:
    body = json.loads(change_event(change()).encode())
    assert {
        "specversion",
        "id",
        "source",
        "type",
        "time",
        "subject",
        "datacontenttype",
        "data",
    } <= set(body)
    assert (body["specversion"], body["type"]) == ("1.0", "livedex.document.changed")


def test_the_fence_is_the_same_wherever_the_content_waits() -> None:
    inline = change(text="x" * 100)
    elsewhere = inline.model_copy(update={"content": None, "blob": inline.content_sha256})
    assert inline.fence == elsewhere.fence


def test_the_fence_orders_by_version_then_delete_then_content() -> None:
    fences = [
        change(1, "a").fence,
        change(1, "b").fence,
        Changed(tenant_id="t", document_id="d", version=1, deleted=True).fence,
        change(2, "a").fence,
    ]
    ranks = [(f.version, f.digest) for f in fences]
    assert max(ranks[:3]) == ranks[2] and max(ranks) == ranks[3] and ranks[0] != ranks[1]


def test_metadata_alone_makes_another_fence() -> None:
    assert change(metadata={"a": 1}).fence != change(metadata={"a": 2}).fence
    assert change(metadata={"a": 1, "b": 2}).fence == change(metadata={"b": 2, "a": 1}).fence


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"{",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        json.dumps({"specversion": "1.0", "data": "secret text"}).encode(),
    ],
)
def test_what_is_no_event_is_rejected_without_quoting_it(raw: bytes | None) -> None:
    with pytest.raises(RejectedError) as refused:
        decode_event(raw, Changed)
    assert refused.value.reason == "invalid_event" and "secret" not in str(refused.value)


def test_half_a_character_is_replaced_and_metadata_that_cannot_be_written_again_make_no_event() -> (
    None
):
    raw = change_event(
        Changed(tenant_id="acme", document_id="d", version=1, title="TITLE", metadata={"k": 1})
    ).encode()
    assert decode_event(raw.replace(b"TITLE", rb"a\ud83d"), Changed).data.title == "a\ufffd"
    with pytest.raises(RejectedError) as refused:
        decode_event(raw.replace(b'{"k":1}', b'{"k":' * 300 + b"1" + b"}" * 300), Changed)
    assert refused.value.reason == "invalid_event" and "metadata" in str(refused.value)


@pytest.mark.parametrize(
    "written", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999Z"]
)
def test_the_time_of_a_program_that_knows_none_is_none(written: str) -> None:
    assert Changed(tenant_id="t", document_id="d", version=1, changed_at=written).changed_at is None
