"""Convert Kafka records to `Record`, and dead letters back to the original bytes."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from livedex.consumers.record_processor import Record, read_event
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.decoder import decode_event
from livedex.pipeline.events.event import CHANGED, Changed, Event, HeaderValue, change_event
from livedex.pipeline.flow import Stage
from livedex.pipeline.model import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aiokafka import ConsumerRecord

_BASE64 = "base64:"
_INTAKE = "livedex-intake"
INTAKE_HEADERS = [(_INTAKE, b"1")]
"""Headers of changes that Livedex accepted, whose versions it has checked already."""


def from_kafka(raw: ConsumerRecord[Any, Any], prefix: str) -> Record:
    """Convert a record of aiokafka.

    Args:
        raw: as read.
        prefix: of the installation's topics; removed from the topic.
    """
    place: dict[str, Any] = {
        "partition": raw.partition,
        "offset": raw.offset,
        "key": None if raw.key is None else encode_bytes_as_text(raw.key),
    }
    if raw.value is None:
        place["value"] = None
    record_id = f"{raw.topic}-{raw.partition}-{raw.offset}"
    return Record(
        record_id,
        raw.topic.removeprefix(prefix),
        raw.value,
        place,
        headers_to_dict(raw.headers),
        _taken_at(raw.timestamp),
    )


def _taken_at(milliseconds: int) -> datetime:
    """Return the timestamp of a record; now if it is missing or in the future."""
    now = datetime.now(UTC)
    if not 0 <= milliseconds / 1000 < now.timestamp():
        return now
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def encode_bytes_as_text(raw: bytes) -> str:
    """Return bytes as text for PostgreSQL, without loss; see `decode_text_as_bytes`.

    Args:
        raw: any bytes.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\x00"
    return (
        _BASE64 + base64.b64encode(raw).decode()
        if "\x00" in text or text.startswith(_BASE64)
        else text
    )


def decode_text_as_bytes(text: str) -> bytes:
    """Return the bytes that `encode_bytes_as_text` encoded.

    Args:
        text: encoded.
    """
    return (
        base64.b64decode(text.removeprefix(_BASE64)) if text.startswith(_BASE64) else text.encode()
    )


def headers_to_dict(pairs: Iterable[tuple[str, bytes | None]]) -> dict[str, HeaderValue]:
    """Return headers by name; only the order of different names is lost.

    Args:
        pairs: of aiokafka.
    """
    found: dict[str, list[str | None]] = {}
    for name, value in pairs:
        found.setdefault(encode_bytes_as_text(name.encode("utf-8", "surrogateescape")), []).append(
            None if value is None else encode_bytes_as_text(value)
        )
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def headers_to_kafka(headers: Mapping[str, HeaderValue]) -> list[tuple[str, bytes | None]]:
    """Return headers for aiokafka; bytes of a name that are not UTF-8 are replaced.

    Args:
        headers: by name.
    """
    return [
        (
            decode_text_as_bytes(name).decode("utf-8", "replace"),
            None if value is None else decode_text_as_bytes(value),
        )
        for name, values in headers.items()
        for value in (values if isinstance(values, list) else [values])
    ]


def original_key_and_value(
    payload: bytes, place: Mapping[str, Any]
) -> tuple[bytes | None, bytes | None]:
    """Return key and value of the record of a dead letter.

    Args:
        payload: of the dead letter.
        place: of the dead letter.
    """
    key = place.get("key")
    return None if key is None else decode_text_as_bytes(
        key
    ), None if not payload and "value" in place else payload


def decode_record(record: Record, stage: Stage) -> Event[Any]:
    """Return the event in a record; a key without a value (a tombstone) is a delete.

    Args:
        record: as delivered.
        stage: that takes it.

    Raises:
        RejectedError: the record contains no valid event.
    """
    if record.topic != CHANGED:
        return read_event(record, stage)
    if record.payload is not None:
        event = decode_event(
            record.payload, Changed, record.at, ours=record.headers.get(_INTAKE) == "1"
        )
        return event if record.at is None else event.arrived(_arrival(record, record.at))
    tenant_id, slash, document_id = (record.place["key"] or "").partition("/")
    if not (slash and tenant_id and document_id) or tenant_id.startswith(_BASE64):
        raise RejectedError(
            "no value, and the key does not name TENANT/DOCUMENT: send the key TENANT/DOCUMENT",
            reason="invalid_event",
        )
    try:
        event = change_event(
            Changed(
                tenant_id=tenant_id,
                document_id=document_id,
                version=0,
                deleted=True,
                any_version=True,
            )
        )
    except ValueError as exc:
        raise RejectedError(
            "no value, and the key is too long for TENANT/DOCUMENT", reason="invalid_event"
        ) from exc
    identity = hashlib.sha256(record.id.encode()).hexdigest()[:32]
    event = event.model_copy(update={"id": identity})
    return event if record.at is None else event.arrived(_arrival(record, record.at))


def _arrival(record: Record, at: datetime) -> Arrival:
    """Return the arrival by the broker, which a producer cannot influence."""
    return Arrival(at, record.place["partition"], record.place["offset"])
