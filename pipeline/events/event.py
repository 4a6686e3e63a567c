"""The messages between the stages: CloudEvents 1.0 in structured JSON, with frozen payloads and a
schema version.

Messages carry identity and references. Only `livedex.changed` may carry content, up to
`INLINE_LIMIT_BYTES`; larger content waits in the blob store and the message names it.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from datetime import UTC, datetime
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

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


_NO_NUL = r"^[^\x00]*$"  # what no database can keep names nothing


class Payload(BaseModel):
    """The base of every payload: frozen, and nothing unknown in it."""

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
"""Fields that came later: an event that says nothing of them has the digest that it had before
there were any.
"""


class Changed(Payload):
    """A document changed at its source.

    Attributes:
        deleted: it is gone; nothing else matters then.
        any_version: it is gone whatever its version was, if that was accepted before this: a source
            that deletes without versions.
        unreadable: why its content could not be read (permission, I/O): the last synced version
            stays.
        content: the bytes, base64; None where `blob` names them.
        blob: SHA-256 of the content in the blob store, hexadecimal.
        url: where the content is to be had, instead of it: the chunk stage gets it, so that what
            fails there is tried again.
        gone_if_missing: where nothing stands at `url` any more (404, 410), the document is deleted.
        seen_at: a URL at which the content stood when the change was sent. Nothing at `url` deletes
            only if something stands there still: who may
            not look at either is told that nothing is there, too. None: nothing at `url` is enough,
            since the change itself says that the document is gone.
        listing: no document changes by this: `content` says what has to be looked up, and each
            change that is found becomes an event.
        name: a file name, for the format.
        acl: the principals that may read it; None: everybody of the tenant, empty: nobody; see
            `livedex.pipeline.acl`.
        patch: what changes of the newest version instead of its content, see
            `livedex.pipeline.events.merge_patch`; nothing else of this then counts. builds_on,
            held: of a patch: the newest version that was given before it, and the newest of these
            whose event the broker holds for sure.
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
        """The first and the last years are what programs write who know no time, and databases
        cannot hold all of them.
        """
        return value if value is None or 1 < value.year < 9999 else None

    @field_validator("acl")
    @classmethod
    def _everybody(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return normalize_acl(value)

    @property
    def fence(self) -> Fence:
        """What decides between this event and another of the same document: see `Fence`."""
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
        """SHA-256 of the content, hexadecimal; None where there is none."""
        if self.blob is not None or self.content is None:
            return self.blob
        return hashlib.sha256(self.content_bytes()).hexdigest()

    def content_bytes(self) -> bytes:
        """The bytes of `content`.

        Raises:
            RejectedError: it is no base64.
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
        """What it carries besides its text."""
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
        """The fence of the version under way."""
        return Fence(self.version, bytes.fromhex(self.digest))


HeaderValue: TypeAlias = str | list[str | None] | None
"""What stood under one name among the headers of a record; a list where the name stood there more
than once.
"""


class DeadLetterData(Payload):
    """An event that cannot be processed: what is told of a dead letter.

    Attributes:
        place: partition and offset, and key.
        headers: text; what is no text in base64, behind "base64:".
        payload: the exact bytes, base64; None where they are too large for a message: the table of
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


P = TypeVar("P", Changed, ManifestRef, DeadLetterData)


class Event(BaseModel, Generic[P]):
    """The envelope: CloudEvents 1.0.

    Attributes:
        id: unique; kept through all stages, so that one change can be followed.
        subject: the document id.
        accepted: extension: when the change was accepted by Livedex; carried through all stages.
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
        """When and where the broker took it; where it does not say, when it was accepted."""
        return self._arrival or Arrival(self.accepted)

    def arrived(self, arrival: Arrival) -> Self:
        """The same event, as the broker took it; it was not accepted later than that, whatever it
        says itself.
        """
        event = self.model_copy(update={"accepted": min(self.accepted, arrival.at)})
        event._arrival = arrival
        return event

    @property
    def tenant_id(self) -> TenantId:
        """The tenant it is about."""
        return TenantId(self.data.tenant_id)

    @property
    def document_id(self) -> DocumentId:
        """The document it is about."""
        return DocumentId(self.data.document_id)

    def key(self) -> str:
        """Return the record key, tenant and document: one document's events stay in order."""
        return f"{self.data.tenant_id}/{self.data.document_id}"

    def encode(self) -> bytes:
        """The event as JSON in UTF-8."""
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
        kind: `CHUNKED`, `EMBEDDED` or `SYNCED`.
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
