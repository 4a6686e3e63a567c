"""From a payload to changes, by the JMESPath expressions of a source."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from livedex.connectors.webhook.expressions import JmespathExpression
from livedex.pipeline.acl import Acl
from livedex.pipeline.events.version_limits import parse_version
from livedex.pipeline.http.validation import FieldPath, InvalidFieldError, validate_model
from livedex.pipeline.ingest.change_request import (
    ChangeRequest,
    DocumentIdField,
    MetadataField,
    NameField,
    RequestBody,
    UrlField,
    check_version,
    guess_text_mime_type,
    redact_url,
)
from livedex.pipeline.ingest.timestamps import epoch_ns, precision_ns
from livedex.pipeline.model import DocumentId
from livedex.pipeline.settings.webhook_source import WebhookMapping, WebhookSource

_TIME: TypeAdapter[datetime] = TypeAdapter(AwareDatetime)


def _text_of(value: object) -> object:
    """Numbers are ids, too."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _version(value: object) -> int | datetime:
    """A whole number, also written as a text, or a time.

    Raises:
        PydanticCustomError: the path is invalid.
    """
    value = parse_version(value)
    if isinstance(value, str):
        try:
            at = _TIME.validate_python(value)
            at.astimezone(UTC)
            return at
        except (ValidationError, OverflowError) as exc:
            raise PydanticCustomError(
                "version", "it is a whole number, or a time as in RFC 3339"
            ) from exc
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("version", "it is a whole number, or a time as in RFC 3339")
    return check_version(value)


def _one_or_several(value: object) -> object:
    return [value] if isinstance(value, str) else value


class _Mapped(RequestBody):
    """What the expressions gave for one document."""

    document_id: Annotated[DocumentIdField, BeforeValidator(_text_of)]
    version: Annotated[int | datetime, BeforeValidator(_version)] | None = None
    event_id: (
        Annotated[str, BeforeValidator(_text_of), Field(min_length=1, max_length=1000)] | None
    ) = None
    deleted: bool | None = None
    text: str | None = None
    url: UrlField | None = None
    title: Annotated[str, Field(max_length=2000)] | None = None
    uri: Annotated[str, Field(max_length=8000)] | None = None
    metadata: MetadataField | None = None
    collection: NameField | None = None
    mime_type: NameField | None = None
    acl: Annotated[Acl, BeforeValidator(_one_or_several)] | None = None


class PayloadMapper:
    """The expressions of a source, compiled.

    Args:
        expressions: as the settings have them.

    Raises:
        ConfigError: one of them is no JMESPath, or asks for a function that there is not.
    """

    def __init__(self, source: WebhookSource, expressions: WebhookMapping) -> None:
        self._source = source
        said = expressions.model_dump(exclude_none=True)
        self._items, self._when = (
            _compiled(source, name, said.pop(name, None)) for name in ("items", "when")
        )
        self._fields = {name: _compiled(source, name, text) for name, text in said.items()}

    def read(self, payload: Any) -> list[ChangeRequest]:
        """What changed.

        Raises:
            RequestValidationError: a value has the wrong type; the field is named.
            InvalidFieldError: a field has the wrong type; the error names it.
        """
        if self._items is None:
            return self._read_one(payload, ())
        items = self._items.found(payload, ("items",))
        if items is None:
            return []
        if not isinstance(items, list):
            raise InvalidFieldError(("items",), "it is a list")
        found: list[ChangeRequest] = []
        for n, item in enumerate(items):
            found += self._read_one(item, (n,))
        return found

    def _read_one(self, item: Any, place: FieldPath) -> list[ChangeRequest]:
        if self._when is not None and not self._when.found(item, (*place, "when")):
            return []
        values = {
            name: expression.found(item, (*place, name))
            for name, expression in self._fields.items()
            if expression is not None
        }
        return [_incoming(validate_model(_Mapped, values, place), self._source, place)]


def _compiled(source: WebhookSource, name: str, text: str | None) -> JmespathExpression | None:
    return None if text is None else JmespathExpression(source.name, name, text)


def _acl(found: _Mapped, source: WebhookSource) -> tuple[str, ...] | None:
    """Who may read a document: as the map says, else as the source does.

    Where a map that says so gives nothing, nobody may.
    """
    if found.acl is not None:
        return found.acl
    return (
        ()
        if source.acl is None and source.map is not None and source.map.acl is not None
        else source.acl
    )


def _incoming(found: _Mapped, source: WebhookSource, place: FieldPath) -> ChangeRequest:
    if not found.deleted and (found.text is None) == (found.url is None):
        raise InvalidFieldError(
            (*place, "text"), "the map gives the content once: as text, or as url"
        )
    made = ChangeRequest(
        DocumentId(found.document_id),
        deleted=bool(found.deleted),
        delivery_id=found.event_id,
        title=found.title,
        uri=found.uri or redact_url(found.url),
        collection=found.collection or source.collection,
        metadata={**source.metadata, **(found.metadata or {})},
        mime_type=found.mime_type,
        acl=_acl(found, source),
    )
    if isinstance(found.version, datetime):
        made = replace(
            made,
            occurred_at_ns=epoch_ns(found.version),
            precision_ns=precision_ns(found.version),
            changed_at=found.version,
        )
    else:
        made = replace(made, version=found.version)
    if found.deleted:
        return made
    if found.text is None:
        return replace(made, url=found.url)
    mime_type = found.mime_type or guess_text_mime_type(found.document_id)
    return replace(made, content=found.text.encode("utf-8", "surrogatepass"), mime_type=mime_type)
