"""From a payload to changes, by the JMESPath expressions of a source."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from livedex.connectors.webhook.expressions import Expression
from livedex.pipeline.acl import Acl
from livedex.pipeline.events.version_limits import number_of
from livedex.pipeline.http.validation import Place, refused, validated
from livedex.pipeline.ingest.change_request import Body, Id, Incoming, Metadata, Name, Url, mime_type_of_text, shown, version_in_bounds
from livedex.pipeline.ingest.timestamps import exactness_ns, nanoseconds
from livedex.pipeline.model import DocumentId
from livedex.pipeline.settings.webhook_source import WebhookMap, WebhookSource

_TIME: TypeAdapter[datetime] = TypeAdapter(AwareDatetime)


def _text_of(value: object) -> object:
    """Numbers are ids, too."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _version(value: object) -> int | datetime:
    """A whole number, also written as a text, or a time."""
    value = number_of(value)
    if isinstance(value, str):
        try:
            at = _TIME.validate_python(value)
            at.astimezone(UTC)
            return at
        except (ValidationError, OverflowError) as exc:
            raise PydanticCustomError("version", "it is a whole number, or a time as in RFC 3339") from exc
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("version", "it is a whole number, or a time as in RFC 3339")
    return version_in_bounds(value)


def _one_or_several(value: object) -> object:
    return [value] if isinstance(value, str) else value


class _Mapped(Body):
    """What the expressions gave for one document."""

    document_id: Annotated[Id, BeforeValidator(_text_of)]
    version: Annotated[int | datetime, BeforeValidator(_version)] | None = None
    event_id: Annotated[str, BeforeValidator(_text_of), Field(min_length=1, max_length=1000)] | None = None
    deleted: bool | None = None
    text: str | None = None
    url: Url | None = None
    title: Annotated[str, Field(max_length=2000)] | None = None
    uri: Annotated[str, Field(max_length=8000)] | None = None
    metadata: Metadata | None = None
    collection: Name | None = None
    mime_type: Name | None = None
    acl: Annotated[Acl, BeforeValidator(_one_or_several)] | None = None


class Mapper:
    """The expressions of a source, compiled.

    Args:
        expressions: as the settings have them.

    Raises:
        ConfigError: one of them is no JMESPath, or asks for a function that there is not.
    """

    def __init__(self, source: WebhookSource, expressions: WebhookMap) -> None:
        self._source = source
        said = expressions.model_dump(exclude_none=True)
        self._items, self._when = (_compiled(source, name, said.pop(name, None)) for name in ("items", "when"))
        self._fields = {name: _compiled(source, name, text) for name, text in said.items()}

    def read(self, payload: Any) -> list[Incoming]:
        """What changed.

        Raises:
            RequestValidationError: a value has the wrong type; the field is named.
        """
        if self._items is None:
            return self._read_one(payload, ())
        items = self._items.found(payload, ("items",))
        if items is None:
            return []
        if not isinstance(items, list):
            raise refused(("items",), "it is a list")
        found: list[Incoming] = []
        for n, item in enumerate(items):
            found += self._read_one(item, (n,))
        return found

    def _read_one(self, item: Any, place: Place) -> list[Incoming]:
        if self._when is not None and not self._when.found(item, (*place, "when")):
            return []
        values = {name: expression.found(item, (*place, name)) for name, expression in self._fields.items() if expression is not None}
        return [_incoming(validated(_Mapped, values, place), self._source, place)]


def _compiled(source: WebhookSource, name: str, text: str | None) -> Expression | None:
    return None if text is None else Expression(source.name, name, text)


def _acl(found: _Mapped, source: WebhookSource) -> tuple[str, ...] | None:
    """Who may read a document: as the map says, else as the source does. Where a map that says so gives nothing, nobody may."""
    if found.acl is not None:
        return found.acl
    return () if source.acl is None and source.map is not None and source.map.acl is not None else source.acl


def _incoming(found: _Mapped, source: WebhookSource, place: Place) -> Incoming:
    if not found.deleted and (found.text is None) == (found.url is None):
        raise refused((*place, "text"), "the map gives the content once: as text, or as url")
    made = Incoming(
        DocumentId(found.document_id), deleted=bool(found.deleted), delivery_id=found.event_id, title=found.title, uri=found.uri or shown(found.url),
        collection=found.collection or source.collection, metadata={**source.metadata, **(found.metadata or {})}, mime_type=found.mime_type,
        acl=_acl(found, source),
    )  # fmt: skip
    if isinstance(found.version, datetime):
        made = replace(made, at_ns=nanoseconds(found.version), exact_ns=exactness_ns(found.version), changed_at=found.version)
    else:
        made = replace(made, version=found.version)
    if found.deleted:
        return made
    if found.text is None:
        return replace(made, url=found.url)
    mime_type = found.mime_type or mime_type_of_text(found.document_id)
    return replace(made, content=found.text.encode("utf-8", "surrogatepass"), mime_type=mime_type)
