"""What is told outside of what became of a document:

CloudEvents 1.0 in structured JSON, with ids and without any text.
"""

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
"""The stage: of dead letters, of metrics, and of the role."""

NotificationKind = Literal["synced", "deleted", "dead"]
_TYPES: Mapping[NotificationKind, str] = {"synced": SYNCED, "deleted": DELETED, "dead": DEAD}
_KINDS: Mapping[str, NotificationKind] = {kind: name for name, kind in _TYPES.items()}


class NotificationData(Payload):
    """What a notice says.

    Attributes:
        document_id, version: None where a dead letter's bytes do not say.
        state: of the version that is visible now; of `synced` and `deleted`. collection, source: of
            the document; of a deleted one, those that it had. stage, reason, letter_id: of a dead
            letter: where it died, a code from a closed set, and what `livedex dead show` takes.
    """

    tenant_id: str
    document_id: str | None = None
    version: int | None = None
    collection: str | None = None
    source: str | None = None
    state: str | None = None
    stage: str | None = None
    reason: str | None = None
    letter_id: str | None = None


class _Envelope(BaseModel):
    """A notice as it is sent."""

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
    """What one subscriber has still to be told.

    Attributes:
        notice_id: its place: later ones of the same document have greater ones.
        event_id: the same whenever it is sent, and for every subscriber.
        data: what `About` has beside the ids.
        attempts: that failed.
        leased_until: whoever took it has it until then; None: nobody has.
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
        """The id of its event as it is sent."""
        return self.event_id.hex

    def encode(self) -> bytes:
        """The event as JSON in UTF-8; the same bytes whenever it is sent."""
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
    """The kind of notice that a version's becoming visible is, and what it says.

    Args:
        state: that the document has now.
        new: what this version says of the document.
        before: the collection and the source that the document had.
        keep: what was visible stays.
    """
    collection, source = before if keep or state == "deleted" else (new.collection, new.source)
    return "deleted" if state == "deleted" else "synced", {
        "state": state,
        "collection": collection,
        "source": source,
    }


def decode_notification(raw: bytes, subscriber: str) -> Notification:
    """A notice from the bytes of its dead letter, to be told again.

    Raises:
        RejectedError: the bytes are no notice.
    """
    try:
        found = _Envelope.model_validate_json(raw)
        kind = _KINDS[found.type]
    except (ValidationError, KeyError) as exc:
        raise RejectedError("the letter holds no notice", reason="invalid_event") from exc
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
