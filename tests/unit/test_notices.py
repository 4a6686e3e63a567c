"""What is told: the same bytes each time, ids and no text, and back from the bytes."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.notifications import (
    Notification,
    decode_notification,
    notification_of_version,
)
from livedex.pipeline.model import Attributes, TenantId

AT = datetime(2026, 11, 30, 12, 0, 0, 5, tzinfo=UTC)
SYNCED = Notification(
    1,
    TenantId("acme"),
    "shop",
    uuid.UUID(int=1),
    "synced",
    "a/ü.md",
    2**62,
    {"state": "empty", "collection": "c", "source": "s"},
    AT,
)
DEAD = Notification(
    2,
    TenantId("acme"),
    "shop",
    uuid.UUID(int=2),
    "dead",
    None,
    None,
    {"collection": None, "stage": "chunk", "reason": "invalid_event", "letter_id": "4f1c"},
    AT,
)


def test_a_notice_is_a_cloudevent() -> None:
    assert orjson.loads(SYNCED.encode()) == {
        "specversion": "1.0",
        "id": SYNCED.webhook_id,
        "source": "/stages/sync",
        "type": "livedex.synced",
        "subject": "a/ü.md",
        "time": "2026-11-30T12:00:00.000005Z",
        "datacontenttype": "application/json",
        "schemaversion": 1,
        "data": {
            "tenant_id": "acme",
            "document_id": "a/ü.md",
            "version": 2**62,
            "collection": "c",
            "source": "s",
            "state": "empty",
        },
    }
    event = orjson.loads(DEAD.encode())
    assert (event["type"], event["source"], "subject" in event) == (
        "livedex.dead",
        "/stages/chunk",
        False,
    )
    assert event["data"] == {
        "tenant_id": "acme",
        "stage": "chunk",
        "reason": "invalid_event",
        "letter_id": "4f1c",
    }


@pytest.mark.parametrize("notice", [SYNCED, DEAD, replace(SYNCED, kind="deleted")])
def test_the_bytes_are_the_same_however_often_it_is_tried_and_read_back(
    notice: Notification,
) -> None:
    later = replace(
        notice, attempts=5, leased_until=AT, at=AT.astimezone(timezone(timedelta(hours=2)))
    )
    assert later.encode() == notice.encode()
    again = decode_notification(notice.encode(), "shop")
    assert again.encode() == notice.encode()
    assert (again.event_id, again.kind, again.subscriber) == (notice.event_id, notice.kind, "shop")


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"null", b"\xff", SYNCED.encode().replace(b"livedex.synced", b"livedex.changed")],
)
def test_bytes_that_are_no_notice_are_refused(raw: bytes) -> None:
    with pytest.raises(RejectedError):
        decode_notification(raw, "shop")


def test_a_deleted_document_and_one_that_stays_as_it_was_are_told_with_what_they_had() -> None:
    new, before = Attributes(collection="new", source="api"), ("old", "docs")
    assert notification_of_version("synced", new, before, keep=False) == (
        "synced",
        {"state": "synced", "collection": "new", "source": "api"},
    )
    assert notification_of_version("deleted", new, before, keep=False) == (
        "deleted",
        {"state": "deleted", "collection": "old", "source": "docs"},
    )
    assert notification_of_version("unreadable", new, before, keep=True) == (
        "synced",
        {"state": "unreadable", "collection": "old", "source": "docs"},
    )
