"""From what Kafka delivers to a record of ours, and from a dead letter back to exactly what stood
in Kafka.
"""

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
"""The headers of changes that were accepted by Livedex: their versions were looked at then, by a
clock that may have been set since.
"""


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
    """The time of a record by whoever wrote it; now where that is none, or is still to come."""
    now = datetime.now(UTC)
    if not 0 <= milliseconds / 1000 < now.timestamp():
        return now
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def encode_bytes_as_text(raw: bytes) -> str:
    """Bytes as text that PostgreSQL can hold, without loss: `as_bytes` gives them back."""
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
    """The bytes that `as_text` was given."""
    return (
        base64.b64decode(text.removeprefix(_BASE64)) if text.startswith(_BASE64) else text.encode()
    )


def headers_to_dict(pairs: Iterable[tuple[str, bytes | None]]) -> dict[str, HeaderValue]:
    """Headers by their names, without loss but for the order of different names; `header_pairs`
    gives them back.
    """
    found: dict[str, list[str | None]] = {}
    for name, value in pairs:
        found.setdefault(encode_bytes_as_text(name.encode("utf-8", "surrogateescape")), []).append(
            None if value is None else encode_bytes_as_text(value)
        )
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def headers_to_kafka(headers: Mapping[str, HeaderValue]) -> list[tuple[str, bytes | None]]:
    """Headers as Kafka takes them; the client can send no name that is no UTF-8, its odd bytes are
    replaced.
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
    """Key and value of the record that a dead letter was."""
    key = place.get("key")
    return None if key is None else decode_text_as_bytes(
        key
    ), None if not payload and "value" in place else payload


def decode_record(record: Record, stage: Stage) -> Event[Any]:
    """The event in a record; a key without a value, as a compacted topic or a change feed sends it,
    is a delete.

    Raises:
        RejectedError: there is none.
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
            "no value, and the key does not name TENANT/DOCUMENT: nobody knows what was deleted",
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
    """Where a record stands decides, and when the broker took it: what it says of itself was said
    by whoever sent it.
    """
    return Arrival(at, record.place["partition"], record.place["offset"])
