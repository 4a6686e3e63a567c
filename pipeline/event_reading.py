"""From the bytes of a record to the event in it."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import orjson
from pydantic import ValidationError

from pipeline.errors import RejectedError
from pipeline.events import DOCUMENT_CHANGED, DOCUMENT_DELETED, SCHEMA_VERSION, Changed, Event, Step
from pipeline.json_reading import read_json


def decode(raw: bytes | None, payload: type[Changed] | type[Step], accepted: datetime | None = None) -> Event[Any]:
    """Read an event.

    Args:
        payload: what its data must be.
        accepted: when the broker took it, for an event that does not say: other systems need not write our extension.

    Raises:
        RejectedError: the bytes are no such event; the message says which field, never what stood in it.
    """
    if not raw:
        raise RejectedError("the record is empty", reason="invalid_event")
    try:
        body = read_json(raw)
        if isinstance(body, dict):
            _complete(body, payload, accepted)
        return Event[payload].model_validate(body)  # type: ignore[valid-type]
    except orjson.JSONDecodeError as exc:
        raise RejectedError(f"no JSON: {exc.msg} at byte {exc.pos}", reason="invalid_event") from exc
    except ValidationError as exc:
        raise RejectedError(f"no event of schema version {SCHEMA_VERSION}: {wrong_field(exc)}", reason="invalid_event") from exc


def wrong_field(exc: ValidationError) -> str:
    """The first field that is wrong and why, never what stood in it."""
    first = exc.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place or 'record'}: {first['msg']}"


def _complete(body: dict[str, Any], payload: type[Changed] | type[Step], accepted: datetime | None) -> None:
    """Fill in what other systems may leave out, and hold the type of a change against its data."""
    if accepted is not None:
        body.setdefault("accepted", accepted.isoformat())
        body.setdefault("time", body["accepted"])
    data, kind = body.get("data"), body.get("type")
    if payload is not Changed or not isinstance(data, dict):
        return
    if kind == DOCUMENT_DELETED:
        data.setdefault("deleted", True)
    elif kind != DOCUMENT_CHANGED:
        raise RejectedError(f"type is none of {DOCUMENT_CHANGED}, {DOCUMENT_DELETED}", reason="invalid_event")
    if data.get("deleted", False) is not (kind == DOCUMENT_DELETED):
        raise RejectedError(f"type is {kind}, and data.deleted says otherwise", reason="invalid_event")
    if metadata := data.get("metadata"):
        try:
            orjson.dumps(metadata)
        except orjson.JSONEncodeError as exc:  # more can be read than written
            raise RejectedError("data.metadata nests too deep: at most 250 levels", reason="invalid_event") from exc
    if isinstance(data.get("text"), str) and "content" not in data:
        data["content"] = base64.b64encode(data.pop("text").encode("utf-8", "surrogatepass")).decode()
    if not data.get("size_bytes") and isinstance(data.get("content"), str):
        data["size_bytes"] = len(data["content"]) * 3 // 4
