"""Notifications of subscribers: CloudEvents 1.0 in structured JSON, with ids and without text."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import DEAD, SYNCED, Payload
from livedex.pipeline.model import Attributes, TenantId

DELETED = "livedex.deleted"
NOTIFY_STAGE = "notify"
"""Name of the stage in dead letters, metrics and roles."""

NotificationKind = Literal["synced", "deleted", "dead"]
_TYPES: Mapping[NotificationKind, str] = {"synced": SYNCED, "deleted": DELETED, "dead": DEAD}
_KINDS: Mapping[str, NotificationKind] = {kind: name for name, kind in _TYPES.items()}


class NotificationData(Payload):
    """Data of a notification.

    Attributes:
        tenant_id: owner of the document.
        document_id: None if a dead letter does not name it.
        version: None if a dead letter does not name it.
        collection: of the document; of a deleted one, the last.
        source: of the document; of a deleted one, the last.
        state: of the visible version, for `synced` and `deleted`.
        embedded: distinct passages that were embedded for the version.
        reused: distinct passages that had a vector.
        deleted: chunks of the previous version that are gone.
        tokens: of the embedded passages.
        cost: of these tokens; None where no price is known.
        stage: of a dead letter: the stage that failed.
        reason: of a dead letter: a code from a closed set.
        letter_id: of a dead letter: the id for `livedex dead show`.
    """

    tenant_id: str
    document_id: str | None = None
    version: int | None = None
    collection: str | None = None
    source: str | None = None
    state: str | None = None
    embedded: int | None = None
    reused: int | None = None
    deleted: int | None = None
    tokens: int | None = None
    cost: dict[str, str] | None = None
    stage: str | None = None
    reason: str | None = None
    letter_id: str | None = None


class _Envelope(BaseModel):
    """A notification as it is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    specversion: Literal["1.0"] = "1.0"
    id: uuid.UUID
    source: str
    type: str
    subject: str | None = None
    time: AwareDatetime
    datacontenttype: Literal["application/json"] = "application/json"
    schemaversion: Literal[1] = 1
    data: NotificationData = Field(...)


@dataclass(frozen=True, slots=True)
class Notification:
    """A pending notification of one subscriber.

    Attributes:
        notice_id: grows with each notification of a document.
        tenant_id: owner of the document.
        subscriber: its name.
        event_id: the same in every attempt, and for every subscriber.
        kind: of the event.
        document_id: None if a dead letter does not name it.
        version: None if a dead letter does not name it.
        data: the other fields of `NotificationData`.
        at: time of the event.
        attempts: failed ones.
        leased_until: end of the lease; None: not leased.
    """

    notice_id: int
    tenant_id: TenantId
    subscriber: str
    event_id: uuid.UUID
    kind: NotificationKind
    document_id: str | None
    version: int | None
    data: Mapping[str, Any]
    at: datetime
    attempts: int = 0
    leased_until: datetime | None = None

    @property
    def webhook_id(self) -> str:
        """Return the event id as it is sent."""
        return self.event_id.hex

    def encode(self) -> bytes:
        """Return the event as JSON in UTF-8; the same bytes in every attempt."""
        about = NotificationData(
            tenant_id=self.tenant_id,
            document_id=self.document_id,
            version=self.version,
            **self.data,
        )
        envelope = {
            "specversion": "1.0",
            "id": self.webhook_id,
            "source": f"/stages/{about.stage or 'sync'}",
            "type": _TYPES[self.kind],
            "subject": self.document_id or None,
            "time": self.at.astimezone(UTC),
            "datacontenttype": "application/json",
            "schemaversion": 1,
            "data": about.model_dump(exclude_none=True),
        }
        return orjson.dumps(
            {name: value for name, value in envelope.items() if value is not None},
            option=orjson.OPT_UTC_Z,
        )


def notification_of_version(
    state: str, new: Attributes, before: tuple[str, str], *, keep: bool
) -> tuple[NotificationKind, dict[str, Any]]:
    """Return kind and data of the notification of a version that becomes visible.

    Args:
        state: of the document now.
        new: metadata of the version.
        before: previous collection and source of the document.
        keep: the visible content stays.
    """
    collection, source = before if keep or state == "deleted" else (new.collection, new.source)
    return "deleted" if state == "deleted" else "synced", {
        "state": state,
        "collection": collection,
        "source": source,
    }


def decode_notification(raw: bytes, subscriber: str) -> Notification:
    """Return the notification in a dead letter, for a replay.

    Args:
        raw: payload of the dead letter.
        subscriber: its name.

    Raises:
        RejectedError: the payload is not a notification.
    """
    try:
        found = _Envelope.model_validate_json(raw)
        kind = _KINDS[found.type]
    except (ValidationError, KeyError) as exc:
        raise RejectedError(
            "the dead letter contains no notification", reason="invalid_event"
        ) from exc
    rest = found.data.model_dump(exclude_none=True, exclude={"tenant_id", "document_id", "version"})
    about = found.data
    return Notification(
        0,
        TenantId(about.tenant_id),
        subscriber,
        found.id,
        kind,
        about.document_id,
        about.version,
        rest,
        found.time,
    )
