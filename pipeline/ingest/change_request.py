"""A change as a request asks for it, and what a request may say of a document."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from livedex.pipeline.acl import Acl
from livedex.pipeline.events.version_limits import (
    MAX_VERSION_DIGITS,
    parse_version,
    version_problem,
)
from livedex.pipeline.extract.sanitizer import MAX_DEPTH
from livedex.pipeline.extract.text_formats import detect_format
from livedex.pipeline.http.validation import InvalidFieldError
from livedex.pipeline.model import DEFAULT_COLLECTION, NO_NUL_PATTERN, DocumentId

MAX_ID_BYTES = 2000
MAX_METADATA_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change that somebody sent.

    Attributes:
        content: the bytes; None for a delete, and where `url` says where they are.
        url: where its content is; of a delete: where it would be, were it there again meanwhile.
            gone_if_missing, seen_at: whether it is deleted where nothing stands at `url`; see
            `Changed`.
        listing: what else changed has to be looked up, beginning at `url`: `content` says what.
        version: of the source; None where it names none.
        occurred_at_ns: when it happened, nanoseconds since 1970, where no version says more; None:
            when it
            arrives.
        precision_ns: how exactly `occurred_at_ns` is known, in nanoseconds.
        delivery_id: the sender's own name of what brought it; None: it cannot be told from another
            one.
        acl: who may read it; None: everybody of the tenant.
    """

    document_id: DocumentId
    deleted: bool = False
    content: bytes | None = None
    url: str | None = None
    gone_if_missing: bool = False
    seen_at: str | None = None
    listing: bool = False
    version: int | None = None
    occurred_at_ns: int | None = None
    precision_ns: int = 1
    delivery_id: str | None = None
    mime_type: str | None = None
    title: str | None = None
    uri: str | None = None
    collection: str = DEFAULT_COLLECTION
    metadata: dict[str, Any] = field(default_factory=dict)
    changed_at: datetime | None = None
    acl: tuple[str, ...] | None = None


def _id(name: str) -> str:
    if len(name.encode("utf-8", "surrogatepass")) > MAX_ID_BYTES:
        raise PydanticCustomError("too_long", f"an id has at most {MAX_ID_BYTES} bytes")
    if any("\ud800" <= c <= "\udfff" for c in name):
        raise PydanticCustomError("surrogate", "an id is valid Unicode")
    return name


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    if _depth(value) > MAX_DEPTH:
        raise PydanticCustomError("too_deep", f"metadata nests at most {MAX_DEPTH} deep")
    if not _is_finite(value):
        raise PydanticCustomError("not_finite", "a number in metadata is finite")
    try:
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError as exc:
        raise PydanticCustomError(
            "no_json", "metadata is JSON: its whole numbers have at most 64 bits"
        ) from exc
    if size > MAX_METADATA_BYTES:
        raise PydanticCustomError(
            "too_large", f"metadata has at most {MAX_METADATA_BYTES} bytes as JSON"
        )
    return value


def _levels(value: Any) -> Iterator[list[Any]]:
    """What stands in a value, by how deep."""
    level = [value]
    while level:
        yield level
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]


def _depth(value: Any) -> int:
    return sum(1 for _ in _levels(value))


def _is_finite(value: Any) -> bool:
    return all(
        math.isfinite(item) for level in _levels(value) for item in level if isinstance(item, float)
    )


def _url(value: str) -> str:
    """The URL, its scheme as it is usually written."""
    scheme, colon, rest = value.partition(":")
    if not f"{scheme.lower()}{colon}{rest}".startswith(("http://", "https://")):
        raise PydanticCustomError("url", "it begins with http:// or https://")
    return f"{scheme.lower()}:{rest}"


DocumentIdField = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_BYTES, pattern=NO_NUL_PATTERN), AfterValidator(_id)
]
NameField = Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL_PATTERN)]


def check_version(value: int) -> int:
    """The version.

    Raises:
        PydanticCustomError: nobody may give it.
    """
    if (why := version_problem(value)) is not None:
        raise PydanticCustomError("version", "{why}", {"why": why})
    return value


_VERSION: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "format": "int64", "minimum": 0},
        {"type": "string", "pattern": f"^[0-9]{{1,{MAX_VERSION_DIGITS}}}$"},
    ],
    "description": "at most the present time in nanoseconds since 1970, and a day; a string "
    "of digits where numbers above 2^53 are not exact",
}
VersionField = Annotated[
    int, BeforeValidator(parse_version), AfterValidator(check_version), WithJsonSchema(_VERSION)
]
UrlField = Annotated[
    str,
    Field(max_length=8000, json_schema_extra={"pattern": "^[hH][tT][tT][pP][sS]?://[^/?#]"}),
    AfterValidator(_url),
]
MetadataField = Annotated[dict[str, Any], AfterValidator(_metadata)]


class RequestBody(BaseModel):
    """What a request says: nothing unknown in it, and no value bent into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def exactly_one_of(*names: str) -> dict[str, Any]:
    """In a schema: exactly one of these properties has a value. Said behind two negations: tools
    that make types out of a schema make one for
    each choice of a bare `oneOf`, and leave out every other property.
    """
    choices = [{"required": [name], "properties": {name: {"type": "string"}}} for name in names]
    return {"not": {"not": {"oneOf": choices}}}


class DocumentBody(RequestBody):
    """A document: `text`, or `content_base64`, and what goes with it."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of("text", "content_base64"))

    text: str | None = Field(
        default=None,
        description="its text, as Markdown where neither the id nor `mime_type` says otherwise",
    )
    content_base64: str | None = Field(
        default=None,
        description="its bytes, instead of a text",
        json_schema_extra={"format": "byte"},
    )
    mime_type: NameField | None = None
    title: Annotated[str, Field(max_length=2000)] | None = None
    uri: Annotated[str, Field(max_length=8000)] | None = Field(
        default=None, description="where people find it"
    )
    metadata: MetadataField | None = None
    collection: NameField | None = None
    acl: Acl | None = Field(
        default=None,
        description="the principals that may read it; default, and with `*`: everybody of "
        "the tenant; an empty list: nobody",
    )
    version: VersionField | None = Field(
        default=None,
        description="grows with each change at its source; default: newer than every one before",
    )


class LinkedBody(DocumentBody):
    """A document: its content, or the URL of it."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of("text", "content_base64", "url"))

    url: UrlField | None = Field(
        default=None, description="where the content is to be had, instead of it"
    )


class PatchBody(RequestBody):
    """What changes of a document, besides its content; what is not named stays, and null takes it
    away.
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    title: Annotated[str, Field(max_length=2000)] | None = None
    uri: Annotated[str, Field(max_length=8000)] | None = Field(
        default=None, description="where people find it"
    )
    metadata: MetadataField | None = Field(
        default=None,
        description="merged with those that are there (RFC 7396): null takes a member away",
    )
    acl: Acl | None = Field(
        default=None,
        description="the principals that may read it; null, and with `*`: everybody of the "
        "tenant; an empty list: nobody",
    )
    collection: NameField | None = Field(default=None, description="null: the default collection")


def decode_content(
    body: LinkedBody, document_id: str, place: tuple[str | int, ...] = ()
) -> tuple[bytes | None, str | None]:
    """The bytes of a document, None where it says where they are, and their MIME type.

    Args:
        place: of the body in the request, for what is refused.

    Raises:
        RequestValidationError: there are none, or two, or they are no base64.
    """
    if [body.text, body.content_base64, body.url].count(None) != 2:
        raise InvalidFieldError(
            (*place, "text" if body.url is None else "url"),
            "give the content once: as text, as content_base64, or as url",
        )
    if body.url is not None:
        return None, body.mime_type
    if body.text is not None:
        return body.text.encode("utf-8", "surrogatepass"), body.mime_type or guess_text_mime_type(
            document_id
        )
    try:
        return base64.b64decode(body.content_base64 or "", validate=True), body.mime_type
    except ValueError as exc:
        raise InvalidFieldError((*place, "content_base64"), "it is no base64") from exc


_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
_SECRET = re.compile(
    r"(?:^|[&;])(?=[^=&;]*+=)[^=&;]*(?:sig|token|secret|passw|credential|key|auth)", re.I
)


def redact_url(url: str | None) -> str | None:
    """A URL as people may see it: without a password, and without what follows its path where that
    holds what looks like a signature or a key.
    """
    if url is None:
        return None
    url = _USER.sub(r"\1", url)
    bare, *rest = re.split(r"[?#]", url)
    return bare if _SECRET.search("&".join(rest)) else url


def guess_text_mime_type(document_id: str) -> str | None:
    """A text is Markdown, unless its id ends like something else that is text:

    `report.pdf` may be called so and be text all the same.
    """
    last = document_id.rsplit("/", 1)[-1]
    return None if "." in last and detect_format(document_id, None) is not None else "text/markdown"
