"""Decode events from records.

Sizes are bounded before validation: a record of another producer may contain anything, and may be
small on the wire if it is compressed.
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import orjson
from pydantic import ValidationError

from livedex.pipeline.acl import MAX_PRINCIPALS
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import (
    DOCUMENT_CHANGED,
    DOCUMENT_DELETED,
    SCHEMA_VERSION,
    Changed,
    Event,
    ManifestRef,
)
from livedex.pipeline.events.json_decoder import decode_json
from livedex.pipeline.events.version_limits import parse_version, version_problem
from livedex.pipeline.names import is_reserved

MAX_RECORD_BYTES = 12 * 1024 * 1024
"""Of a record, unpacked: what a producer may send by Livedex's topics (8 MiB), and the quotes and
escapes of another serialisation.
"""
MAX_RECORD_METADATA_BYTES = 262_144
_MAX_BRACKETS = 500_000  # a list takes 3 bytes of JSON and hundreds of memory
_MAX_ATTRIBUTES = 100  # of an envelope, extensions included
_MAX_NAME_CHARACTERS = 100
_CONTENT_FIELDS = ("content", "blob", "url")


def decode_event(
    raw: bytes | None,
    payload: type[Changed] | type[ManifestRef],
    accepted: datetime | None = None,
    *,
    ours: bool = False,
) -> Event[Any]:
    """Decode an event.

    Args:
        raw: the record's value.
        payload: type of its data.
        accepted: when the broker took it; stands in for the extension that other producers need
            not write. None on topics that only Livedex writes.
        ours: whether Livedex ingested the change itself; other producers' changes are bounded.

    Raises:
        RejectedError: not a valid event; the message names the field, never its value.
    """
    if not raw:
        raise RejectedError("the record is empty", reason="invalid_event")
    if len(raw) > MAX_RECORD_BYTES:
        raise RejectedError(
            f"the record has {len(raw)} bytes, at most {MAX_RECORD_BYTES}: give the content "
            "by its url",
            reason="too_large",
        )
    if len(raw) > _MAX_BRACKETS and raw.count(b"[") + raw.count(b"{") > _MAX_BRACKETS:
        raise RejectedError(
            f"the record has more than {_MAX_BRACKETS} brackets: give such a content as "
            "base64, or by its url",
            reason="too_large",
        )
    try:
        body = decode_json(raw)
        if isinstance(body, dict):
            _check_sizes(body, payload)
            _normalize(body, payload, accepted, checked=ours or accepted is None)
        return Event[payload].model_validate(body)  # type: ignore[valid-type]
    except orjson.JSONDecodeError as exc:
        raise RejectedError(
            f"no JSON: {exc.msg} at byte {exc.pos}", reason="invalid_event"
        ) from exc
    except ValidationError as exc:
        raise RejectedError(
            f"no event of schema version {SCHEMA_VERSION}: {first_invalid_field(exc)}",
            reason="invalid_event",
        ) from exc


def first_invalid_field(exc: ValidationError) -> str:
    """Return the first invalid field and why it is invalid, without its value.

    Args:
        exc: of pydantic.
    """
    first = exc.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:_MAX_NAME_CHARACTERS] for part in first["loc"])
    return f"{place or 'record'}: {first['msg']}"


class InvalidEventError(RejectedError):
    """A field of an event is invalid; the message names the field, never its value."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(
            f"no event of schema version {SCHEMA_VERSION}: {place}: {why}", reason="invalid_event"
        )


def _check_sizes(body: dict[str, Any], payload: type[Changed] | type[ManifestRef]) -> None:
    """Reject what would make validation slow: it reports every single error.

    Raises:
        InvalidEventError: too many attributes, unknown fields or too many principals.
    """
    if len(body) > _MAX_ATTRIBUTES:
        raise InvalidEventError(
            "record", f"it has {len(body)} attributes, at most {_MAX_ATTRIBUTES}"
        )
    data = body.get("data")
    if not isinstance(data, dict):
        return
    known = {*payload.model_fields, "text"} if payload is Changed else payload.model_fields
    for name in data:
        if name not in known:
            raise InvalidEventError(
                f"data.{name[:_MAX_NAME_CHARACTERS]}", "no such field is known here"
            )
    acl = data.get("acl")
    if isinstance(acl, list) and len(acl) > MAX_PRINCIPALS:
        raise InvalidEventError(
            "data.acl", f"it has {len(acl)} principals, at most {MAX_PRINCIPALS}"
        )


def _normalize(
    body: dict[str, Any],
    payload: type[Changed] | type[ManifestRef],
    accepted: datetime | None,
    *,
    checked: bool,
) -> None:
    """Fill in optional fields, and compare the type of a change with its data.

    Raises:
        RejectedError: they contradict each other, or a bound is exceeded.
    """
    if accepted is not None:
        body.setdefault("accepted", accepted.isoformat())
        body.setdefault("time", body["accepted"])
    data, kind = body.get("data"), body.get("type")
    if payload is not Changed or not isinstance(data, dict):
        return
    if kind == DOCUMENT_DELETED:
        data.setdefault("deleted", True)
    elif kind != DOCUMENT_CHANGED:
        raise RejectedError(
            f"type is none of {DOCUMENT_CHANGED}, {DOCUMENT_DELETED}", reason="invalid_event"
        )
    if data.get("deleted", False) is not (kind == DOCUMENT_DELETED):
        raise RejectedError(
            f"type is {kind}, and data.deleted says otherwise", reason="invalid_event"
        )
    _check_metadata_size(data.get("metadata"))
    if isinstance(data.get("text"), str) and "content" not in data:
        data["content"] = base64.b64encode(
            data.pop("text").encode("utf-8", "surrogatepass")
        ).decode()
    _check_contradictions(data)
    if not checked:
        _check_external_event(data)
    if not data.get("size_bytes") and isinstance(data.get("content"), str):
        data["size_bytes"] = len(data["content"]) * 3 // 4


def _check_metadata_size(metadata: Any) -> None:
    """Check the size of metadata as JSON.

    Raises:
        RejectedError: nested too deep.
        InvalidEventError: too large.
    """
    if not metadata:
        return
    try:
        size = len(orjson.dumps(metadata))
    except orjson.JSONEncodeError as exc:  # orjson reads deeper nesting than it writes
        raise RejectedError(
            "data.metadata nests too deep: at most 250 levels", reason="invalid_event"
        ) from exc
    if size > MAX_RECORD_METADATA_BYTES:
        raise InvalidEventError(
            "data.metadata", f"it has {size} bytes, at most {MAX_RECORD_METADATA_BYTES}"
        )


def _check_external_event(data: dict[str, Any]) -> None:
    """Check an event of another system.

    Raises:
        InvalidEventError: a version out of bounds, a reserved name, or a change without content.
    """
    if "version" in data:
        data["version"] = parse_version(data["version"])
        if (why := version_problem(data["version"])) is not None:
            raise InvalidEventError("data.version", why)
    if isinstance(data.get("tenant_id"), str) and is_reserved(data["tenant_id"]):
        raise InvalidEventError("data.tenant_id", "the name is reserved")
    if any(data.get(name) is not None for name in ("patch", "builds_on", "held")):
        raise InvalidEventError(
            "data.patch",
            "a document is patched over HTTP alone, where it is known what the patch builds on",
        )
    without = data.get("deleted") or data.get("listing") or data.get("unreadable") is not None
    if not without and not any(data.get(name) is not None for name in _CONTENT_FIELDS):
        raise InvalidEventError(
            "data.content",
            "there is none: give it as text, content or url, or say that the document is deleted",
        )


def _check_contradictions(data: dict[str, Any]) -> None:
    """Check that no flag makes the content meaningless.

    Raises:
        InvalidEventError: flags and content contradict each other.
    """
    given = [name for name in _CONTENT_FIELDS if data.get(name) is not None]
    if data.get("any_version") and not data.get("deleted"):
        raise InvalidEventError(
            "data.any_version", "it is for deletes alone: say data.deleted, or leave it out"
        )
    if data.get("deleted") or data.get("unreadable") is not None:
        flag = "deleted" if data.get("deleted") else "unreadable"
        if given or data.get("listing"):
            raise InvalidEventError(
                f"data.{given[0] if given else 'listing'}",
                f"data.{flag} says that there is no content",
            )
        return
    if len(given) > 1 and not data.get("listing"):
        raise InvalidEventError(
            f"data.{given[1]}", "give the content once: as text, content or url"
        )
