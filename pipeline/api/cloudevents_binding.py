"""CloudEvents 1.0 over HTTP in structured, batch and binary mode, converted to changes.

Source: CloudEvents 1.0.2, "HTTP Protocol Binding" and "JSON Event Format".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal
from urllib.parse import unquote_to_bytes

from fastapi.exceptions import RequestValidationError
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from livedex.pipeline.events.event import DOCUMENT_CHANGED, DOCUMENT_DELETED
from livedex.pipeline.events.json_decoder import decode_json
from livedex.pipeline.http.bodies import is_json
from livedex.pipeline.http.validation import (
    FieldPath,
    InvalidFieldError,
    parse_json,
    validate_model,
)
from livedex.pipeline.ingest.change_request import (
    ChangeRequest,
    DocumentBody,
    DocumentIdField,
    LinkedBody,
    RequestBody,
    VersionField,
    decode_content,
    redact_url,
)
from livedex.pipeline.ingest.timestamps import epoch_ns, precision_ns
from livedex.pipeline.model import DEFAULT_COLLECTION, DocumentId

STRUCTURED_MEDIA_TYPE = "application/cloudevents+json"
BATCH_MEDIA_TYPE = "application/cloudevents-batch+json"
MAX_BATCH_EVENTS = 10_000
_MOST_ERRORS = 20  # reported


def _written(value: object) -> object:
    if not isinstance(value, str):
        raise PydanticCustomError("time", "a time must be a string as in RFC 3339")
    return value


class CloudEvent(BaseModel):
    """A CloudEvent. Extension attributes are ignored."""

    model_config = ConfigDict(extra="allow", frozen=True)

    specversion: Literal["1.0"]
    id: str = Field(
        min_length=1,
        max_length=1000,
        strict=True,
        description="unique within `source`; a repeated id has no further effect",
    )
    source: str = Field(min_length=1, max_length=2000, strict=True)
    type: Literal["livedex.document.changed", "livedex.document.deleted"]
    subject: DocumentIdField = Field(strict=True, description="the id of the document")
    time: Annotated[AwareDatetime, BeforeValidator(_written)] | None = Field(
        default=None,
        description="time of the change; orders events without `data.version`, unless it is "
        "more than a day in the future",
    )
    datacontenttype: str | None = Field(default=None, strict=True)
    data: Any = None
    data_base64: str | None = Field(default=None, strict=True)


class DeletedData(RequestBody):
    """The `data` of a delete event."""

    version: VersionField | None = None


def event_schema(*, can_fetch: bool) -> dict[str, Any]:
    """Return the JSON schema of an event for OpenAPI; `data_base64` is accepted, too.

    Args:
        can_fetch: whether content may be given by its URL.
    """
    common = CloudEvent.model_json_schema()
    for name in ("data", "data_base64", "datacontenttype", "type"):
        common["properties"].pop(name)
    content: type[DocumentBody] = LinkedBody if can_fetch else DocumentBody
    changed = {
        "type": {"type": "string", "const": DOCUMENT_CHANGED},
        "data": content.model_json_schema(),
    }
    deleted = {
        "type": {"type": "string", "const": DOCUMENT_DELETED},
        "data": {"anyOf": [DeletedData.model_json_schema(), {"type": "null"}]},
    }
    needed = common["required"]
    return {
        "oneOf": [
            {
                "title": name,
                "type": "object",
                "properties": {**common["properties"], **properties},
                "required": required,
            }
            for name, properties, required in (
                ("ChangedEvent", changed, [*needed, "data"]),
                ("DeletedEvent", deleted, needed),
            )
        ]
    }


def read_events(media: str, headers: Mapping[str, str], body: bytes) -> list[ChangeRequest]:
    """Return the changes in a request, in order.

    Args:
        media: media type of the body, without parameters.
        headers: of the request.
        body: of the request.

    Raises:
        RequestValidationError: an event is invalid; then the whole request is rejected.
        HTTPException: 415, the media type is not supported.
    """
    if media == BATCH_MEDIA_TYPE:
        return _batch(parse_json(body))
    if media != STRUCTURED_MEDIA_TYPE and any(name.lower().startswith("ce-") for name in headers):
        if not is_json(media) and (media or body):
            raise HTTPException(
                415, "the data of an event must be JSON: send Content-Type: application/json"
            )
        return [_incoming(*_binary(headers, body))]
    if media == STRUCTURED_MEDIA_TYPE or media == "application/json":
        value = parse_json(body)
        return (
            _batch(value)
            if isinstance(value, list) and media != STRUCTURED_MEDIA_TYPE
            else [_incoming(value, ())]
        )
    raise HTTPException(
        415,
        f"unsupported media type: send events as {STRUCTURED_MEDIA_TYPE}, as {BATCH_MEDIA_TYPE}, "
        "or as JSON with ce- headers",
    )


def _batch(value: Any) -> list[ChangeRequest]:
    if not isinstance(value, list):
        raise InvalidFieldError(("body",), "a batch must be a list of events")
    if len(value) > MAX_BATCH_EVENTS:
        raise InvalidFieldError(
            ("body",), f"a batch may have at most {MAX_BATCH_EVENTS} events: send several batches"
        )
    found: list[ChangeRequest] = []
    errors: list[Any] = []
    for n, event in enumerate(value):
        if len(errors) >= _MOST_ERRORS:
            break
        try:
            found.append(_incoming(event, (n,)))
        except RequestValidationError as exc:
            errors += list(exc.errors())
    if errors:
        raise RequestValidationError(errors)
    return found


def _binary(headers: Mapping[str, str], body: bytes) -> tuple[dict[str, Any], FieldPath]:
    """Return the event of a request in binary mode, whose headers are the attributes."""
    attributes: dict[str, Any] = {}
    for name, value in headers.items():
        if name.lower().startswith("ce-"):
            attributes[name.lower().removeprefix("ce-")] = _header(name, value)
    attributes.pop("datacontenttype", None)
    if body:
        attributes["data"] = parse_json(body)
    return attributes, ()


def _header(name: str, value: str) -> str:
    """Return an attribute from a header, unquoted and percent-decoded.

    Source: "HTTP Protocol Binding", 3.1.3.2.

    Raises:
        InvalidFieldError: the decoded value is not UTF-8.
    """
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    try:
        return unquote_to_bytes(value.encode("latin-1")).decode()
    except UnicodeDecodeError as exc:
        raise InvalidFieldError((name,), "the percent-decoded value must be UTF-8") from exc


def _incoming(value: Any, place: FieldPath) -> ChangeRequest:
    event = validate_model(CloudEvent, value, place)
    data, document_id = _data(event, place), DocumentId(event.subject)
    if event.type == DOCUMENT_DELETED:
        body = validate_model(DeletedData, {} if data is None else data, (*place, "data"))
        found = ChangeRequest(document_id, deleted=True, version=body.version)
    else:
        found = _changed(
            validate_model(LinkedBody, data, (*place, "data")), document_id, (*place, "data")
        )
    found = replace(found, delivery_id=f"{event.source}\x00{event.id}", changed_at=event.time)
    if event.time is None:
        return found
    return replace(
        found, occurred_at_ns=epoch_ns(event.time), precision_ns=precision_ns(event.time)
    )


def _changed(body: LinkedBody, document_id: DocumentId, place: FieldPath) -> ChangeRequest:
    content, mime_type = decode_content(body, document_id, place)
    return ChangeRequest(
        document_id,
        content=content,
        url=body.url,
        version=body.version,
        mime_type=mime_type,
        title=body.title,
        uri=body.uri or redact_url(body.url),
        collection=body.collection or DEFAULT_COLLECTION,
        metadata=body.metadata or {},
        acl=body.acl,
    )


def _data(event: CloudEvent, place: FieldPath) -> Any:
    if event.datacontenttype is not None and not is_json(
        event.datacontenttype.partition(";")[0].strip().lower()
    ):
        raise InvalidFieldError((*place, "datacontenttype"), "the data of an event must be JSON")
    if event.data_base64 is None:
        return event.data
    if event.data is not None:
        raise InvalidFieldError(
            (*place, "data_base64"), "send either data or data_base64, not both"
        )
    try:
        return decode_json(base64.b64decode(event.data_base64, validate=True))
    except ValueError as exc:
        raise InvalidFieldError((*place, "data_base64"), "it must be JSON in Base64") from exc
