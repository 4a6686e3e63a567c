"""Messages between the stages: CloudEvents 1.0 in structured JSON, with immutable payloads and a
schema version.

Messages carry identity and references. Only `livedex.changed` may carry content, up to
`INLINE_LIMIT_BYTES`; larger content is in the blob store, and the message names it.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, cast

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from livedex.pipeline.acl import Acl, normalize_acl
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import Arrival, Attributes, DocumentId, Fence, TenantId, shorten_id

SCHEMA_VERSION = 1
INLINE_LIMIT_BYTES = 262_144

CHANGED = "livedex.changed"
CHUNKED = "livedex.chunked"
EMBEDDED = "livedex.embedded"
SYNCED = "livedex.synced"
DEAD = "livedex.dead"

DOCUMENT_CHANGED = "livedex.document.changed"
DOCUMENT_DELETED = "livedex.document.deleted"


_NO_NUL = r"^[^\x00]*$"  # PostgreSQL cannot store NUL


class Payload(BaseModel):
    """Base of every payload: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_FIELDS_ADDED_LATER = (
    "url",
    "acl",
    "gone_if_missing",
    "seen_at",
    "listing",
    "patch",
    "builds_on",
    "held",
)
"""Fields added later: an event without them keeps the digest of earlier releases."""


class Changed(Payload):
    """A document changed at its source.

    Attributes:
        tenant_id: owner of the document.
        document_id: unique in the tenant.
        version: grows with each change.
        deleted: the document is deleted; all other fields are ignored.
        any_version: deletes every version accepted before this event: for sources that delete
            without versions.
        unreadable: why its content could not be read (permission, I/O): the last synced version
            stays.
        content: the bytes, base64; None where `blob` names them.
        blob: SHA-256 of the content in the blob store, hexadecimal.
        url: of the content, instead of `content`: the chunk stage fetches it and retries failures.
        gone_if_missing: a missing content at `url` (404, 410) means that the document is deleted.
        seen_at: a URL that had content when the change was sent. A missing content at `url` means a
            delete only if this URL still has content: without access rights both are missing.
            None: the check is not needed, because the change itself announces the delete.
        listing: changes no document: `content` says which changes to list, and each of them becomes
            an event.
        size_bytes: of the content.
        name: a file name, which may tell the format.
        mime_type: which may tell the format.
        collection: name of the collection.
        source: name of the source.
        title: of the document.
        uri: for readers.
        metadata: JSON object.
        changed_at: time of the change at the source.
        acl: the principals that may read it; None: the whole tenant; empty: no principal; see
            `livedex.pipeline.acl`.
        patch: changes the metadata of the newest version, see
            `livedex.pipeline.events.merge_patch`; all other fields are ignored.
        builds_on: of a patch: the newest version assigned before it.
        held: of a patch: the newest of these versions whose event the broker certainly holds.
    """

    tenant_id: str = Field(min_length=1, max_length=200, pattern=_NO_NUL)
    document_id: str = Field(min_length=1, max_length=2000, pattern=_NO_NUL)
    version: int = Field(ge=0, lt=2**63)
    deleted: bool = False
    any_version: bool = False
    unreadable: str | None = None
    content: str | None = None
    blob: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    url: str | None = Field(default=None, pattern=r"^https?://")
    gone_if_missing: bool = False
    seen_at: str | None = Field(default=None, pattern=r"^https?://")
    listing: bool = False
    size_bytes: int = Field(default=0, ge=0)
    name: str = ""
    mime_type: str | None = Field(default=None, pattern=_NO_NUL)
    collection: str = Field(default="default", pattern=_NO_NUL)
    source: str = Field(default="", pattern=_NO_NUL)
    title: str | None = None
    uri: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    changed_at: AwareDatetime | None = None
    acl: Acl | None = None
    patch: dict[str, Any] | None = None
    builds_on: int | None = None
    held: int | None = None

    @field_validator("changed_at")
    @classmethod
    def _in_a_calendar(cls, value: datetime | None) -> datetime | None:
        """Drop the years 1 and 9999: programs write them for an unknown time, and databases cannot
        store all of them.
        """
        return value if value is None or 1 < value.year < 9999 else None

    @field_validator("acl")
    @classmethod
    def _everybody(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return normalize_acl(value)

    @property
    def fence(self) -> Fence:
        """Return the fence that orders this event and others of its document."""
        own = self.model_dump(
            mode="json",
            exclude={
                "tenant_id",
                "document_id",
                "version",
                "any_version",
                "changed_at",
                "content",
                "blob",
            },
        )
        own["sha256"] = self.content_sha256
        for name in _FIELDS_ADDED_LATER:
            if own[name] is None or own[name] is False:
                del own[name]
        digest = hashlib.sha256(orjson.dumps(own, option=orjson.OPT_SORT_KEYS)).digest()
        return Fence(self.version, bytes([self.deleted]) + digest)

    @property
    def content_sha256(self) -> str | None:
        """Return the hexadecimal SHA-256 of the content; None without content."""
        if self.blob is not None or self.content is None:
            return self.blob
        return hashlib.sha256(self.content_bytes()).hexdigest()

    def content_bytes(self) -> bytes:
        """Return the bytes of `content`.

        Raises:
            RejectedError: invalid base64.
        """
        try:
            return base64.b64decode(self.content or "", validate=True)
        except ValueError as exc:
            raise RejectedError(
                f"{shorten_id(self.document_id)} v{self.version}: content is no base64",
                reason="invalid_event",
            ) from exc

    @property
    def attributes(self) -> Attributes:
        """Return the metadata of the document."""
        return Attributes(
            self.collection,
            self.source,
            self.title,
            self.uri,
            self.mime_type,
            self.metadata,
            self.changed_at,
            self.acl,
        )


class ManifestRef(Payload):
    """A manifest goes on to the next stage: identity alone, the manifest itself stands in the
    store.

    Attributes:
        digest: of the fence, hexadecimal.
    """

    tenant_id: str = Field(min_length=1, max_length=200, pattern=_NO_NUL)
    document_id: str = Field(min_length=1, max_length=2000, pattern=_NO_NUL)
    version: int = Field(ge=0, lt=2**63)
    digest: str = Field(pattern=r"^[0-9a-f]{66}$")

    @property
    def fence(self) -> Fence:
        """Return the fence of the version."""
        return Fence(self.version, bytes.fromhex(self.digest))


HeaderValue: TypeAlias = str | list[str | None] | None
"""The value of a header; a list if the name occurs more than once."""


class Synced(ManifestRef):
    """A version is visible, and what it took.

    Attributes:
        chunks: of the version; this and all fields below are None where they are not known.
        embedded: distinct passages that were embedded for it.
        reused: distinct passages that had a vector.
        deleted: chunks of the previous version that are gone.
        tokens: of the embedded passages.
        cost: of these tokens, `{"amount": "0.0012", "currency": "USD"}`; None where no price is
            known.
    """

    chunks: int | None = None
    embedded: int | None = None
    reused: int | None = None
    deleted: int | None = None
    tokens: int | None = None
    cost: dict[str, str] | None = None


class DeadLetterData(Payload):
    """A dead letter as it is published.

    Attributes:
        place: partition and offset, and key.
        headers: text; other bytes as base64 after "base64:".
        payload: the exact bytes, base64; None if they are too large for a message: the table of
            dead letters has them.
        payload_sha256: of the exact bytes, hexadecimal.
    """

    letter_id: str
    tenant_id: str
    document_id: str
    version: int | None
    stage: str
    reason: str
    detail: str
    attempts: int
    topic: str
    place: dict[str, Any]
    headers: dict[str, HeaderValue]
    payload: str | None
    payload_sha256: str
    size_bytes: int


P = TypeVar("P", Changed, ManifestRef, Synced, DeadLetterData)


class Event(BaseModel, Generic[P]):
    """An event: the envelope of CloudEvents 1.0.

    Attributes:
        id: unique; the same in all stages, for tracing.
        subject: the document id.
        accepted: extension: when Livedex accepted the change; the same in all stages.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    specversion: Literal["1.0"] = "1.0"
    id: str = Field(min_length=1)
    source: str = Field(min_length=1)
    type: str
    subject: str | None = None
    time: AwareDatetime
    datacontenttype: Literal["application/json"] = "application/json"
    schemaversion: Literal[1] = 1
    accepted: AwareDatetime
    data: P
    _arrival: Arrival | None = PrivateAttr(default=None)

    @property
    def arrival(self) -> Arrival:
        """Return when and where the broker took the event; without it, when it was accepted."""
        return self._arrival or Arrival(self.accepted)

    def arrived(self, arrival: Arrival) -> Self:
        """Return the event with its arrival; `accepted` is at most the time of arrival.

        Args:
            arrival: at the broker.
        """
        event = self.model_copy(update={"accepted": min(self.accepted, arrival.at)})
        event._arrival = arrival
        return event

    @property
    def tenant_id(self) -> TenantId:
        """Return the tenant of the document."""
        return TenantId(self.data.tenant_id)

    @property
    def document_id(self) -> DocumentId:
        """Return the id of the document."""
        return DocumentId(self.data.document_id)

    def key(self) -> str:
        """Return the record key, tenant and document: one document's events stay in order."""
        return f"{self.data.tenant_id}/{self.data.document_id}"

    def encode(self) -> bytes:
        """Return the event as JSON in UTF-8."""
        return orjson.dumps(self.model_dump(mode="json", exclude_none=True))


def change_event(data: Changed) -> Event[Changed]:
    """Return the envelope of a change, accepted now.

    Args:
        data: the change.
    """
    now = datetime.now(UTC)
    kind = DOCUMENT_DELETED if data.deleted else DOCUMENT_CHANGED
    source = f"/sources/{data.source or 'api'}"
    return Event[Changed](
        id=uuid.uuid4().hex,
        source=source,
        type=kind,
        subject=data.document_id,
        time=now,
        accepted=now,
        data=data,
    )


def next_stage_event(kind: str, before: Event[Any], fence: Fence) -> Event[ManifestRef]:
    """Return the envelope of the next stage, with the same id and time of acceptance.

    Args:
        kind: `CHUNKED` or `EMBEDDED`.
        before: the event of the previous stage.
        fence: of the version.
    """
    data = ManifestRef(
        tenant_id=before.data.tenant_id,
        document_id=before.data.document_id,
        version=fence.version,
        digest=fence.digest.hex(),
    )
    return Event[ManifestRef](
        id=before.id,
        source=f"/stages/{kind}",
        type=kind,
        subject=before.subject,
        time=datetime.now(UTC),
        accepted=before.accepted,
        data=data,
    )


def synced_event(
    before: Event[Any], fence: Fence, chunks: int, bill: Mapping[str, Any] | None
) -> Event[ManifestRef]:
    """Return the envelope of a version that is visible, with the same id and time of acceptance.

    Args:
        before: the event of the previous stage.
        fence: of the version.
        chunks: of the version, if it has a bill.
        bill: what it took, by the names of the fields of `Synced`; None: not known.
    """
    ref = next_stage_event(SYNCED, before, fence)
    took = {} if bill is None else {"chunks": chunks, **bill}
    made = Event[Synced](
        **ref.model_dump(exclude={"data"}), data=Synced(**ref.data.model_dump(), **took)
    )
    return cast("Event[ManifestRef]", made)  # a Synced is a ManifestRef
