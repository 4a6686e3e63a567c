"""Change requests, and models of documents in request bodies."""

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
from livedex.pipeline.model import (
    DEFAULT_COLLECTION,
    MAX_METADATA_BYTES,
    NO_NUL_PATTERN,
    DocumentId,
)

MAX_ID_BYTES = 2000


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change in a request or a webhook payload.

    Attributes:
        document_id: of the document.
        deleted: whether it is a delete.
        content: the bytes; None for a delete, or if `url` is set.
        url: of the content; for a delete: URL at which the content may have reappeared.
        gone_if_missing: whether a missing content at `url` means a delete; see `Changed`.
        seen_at: URL of the container in which the content was announced; see `Changed`.
        listing: the changed documents must be listed by the API at `url`; `content` says which.
        version: of the source; None: the source gives none.
        occurred_at_ns: time of the change in nanoseconds since 1970, used without a version; None:
            the time of arrival.
        precision_ns: precision of `occurred_at_ns` in nanoseconds.
        delivery_id: the sender's id of the delivery; None: repeated deliveries are not recognized.
        mime_type: of the content.
        title: of the document.
        uri: for readers.
        collection: of the document.
        metadata: JSON object.
        changed_at: time of the change at the source, aware.
        acl: principals that may read it; None: the whole tenant.
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
        raise PydanticCustomError("too_long", f"an id may have at most {MAX_ID_BYTES} bytes")
    if any("\ud800" <= c <= "\udfff" for c in name):
        raise PydanticCustomError("surrogate", "an id must be valid Unicode")
    return name


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    if _depth(value) > MAX_DEPTH:
        raise PydanticCustomError("too_deep", f"metadata may have at most {MAX_DEPTH} levels")
    if not _is_finite(value):
        raise PydanticCustomError("not_finite", "numbers in metadata must be finite")
    try:
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError as exc:
        raise PydanticCustomError(
            "no_json", "metadata must be JSON with integers of at most 64 bits"
        ) from exc
    if size > MAX_METADATA_BYTES:
        raise PydanticCustomError(
            "too_large", f"metadata may have at most {MAX_METADATA_BYTES} bytes as JSON"
        )
    return value


def _levels(value: Any) -> Iterator[list[Any]]:
    """Yield the values of a JSON value, level by level."""
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
    """Return a URL with its scheme in lower case.

    Raises:
        PydanticCustomError: the scheme is not http or https.
    """
    scheme, colon, rest = value.partition(":")
    if not f"{scheme.lower()}{colon}{rest}".startswith(("http://", "https://")):
        raise PydanticCustomError("url", "it must begin with http:// or https://")
    return f"{scheme.lower()}:{rest}"


DocumentIdField = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_BYTES, pattern=NO_NUL_PATTERN), AfterValidator(_id)
]
NameField = Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL_PATTERN)]


def check_version(value: int) -> int:
    """Return a version that a caller gives.

    Args:
        value: the version.

    Raises:
        PydanticCustomError: it is out of range.
    """
    if (why := version_problem(value)) is not None:
        raise PydanticCustomError("version", "{why}", {"why": why})
    return value


_VERSION: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "format": "int64", "minimum": 0},
        {"type": "string", "pattern": f"^[0-9]{{1,{MAX_VERSION_DIGITS}}}$"},
    ],
    "description": "integer, or a string of digits for clients without exact integers above 2^53; "
    "at most one day ahead of the current time in nanoseconds since 1970",
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
    """Base of request bodies: unknown fields are rejected, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def exactly_one_of(*names: str) -> dict[str, Any]:
    """Return a JSON schema that requires exactly one of these properties.

    It uses two negations, because code generators create a type for each choice of a plain `oneOf`,
    and leave out all other properties.

    Args:
        *names: of the properties.
    """
    choices = [{"required": [name], "properties": {name: {"type": "string"}}} for name in names]
    return {"not": {"not": {"oneOf": choices}}}


class DocumentBody(RequestBody):
    """A document with its content in `text` or `content_base64`."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of("text", "content_base64"))

    text: str | None = Field(
        default=None,
        description="text of the document; Markdown, unless the id or `mime_type` tells another "
        "format",
    )
    content_base64: str | None = Field(
        default=None,
        description="content in Base64, instead of `text`",
        json_schema_extra={"format": "byte"},
    )
    mime_type: NameField | None = None
    title: Annotated[str, Field(max_length=2000)] | None = None
    uri: Annotated[str, Field(max_length=8000)] | None = Field(
        default=None, description="link for readers"
    )
    metadata: MetadataField | None = None
    collection: NameField | None = None
    acl: Acl | None = Field(
        default=None,
        description="principals that may read it; default, and with `*`: the whole tenant; an "
        "empty list: no principal",
    )
    version: VersionField | None = Field(
        default=None,
        description="increases with each change at the source; default: newer than all existing "
        "versions",
    )


class LinkedBody(DocumentBody):
    """A document with its content, or the URL of its content."""

    model_config = ConfigDict(json_schema_extra=exactly_one_of("text", "content_base64", "url"))

    url: UrlField | None = Field(
        default=None, description="URL from which the content is fetched, instead of the content"
    )


class PatchBody(RequestBody):
    """Changed attributes of a document. Missing fields stay unchanged; null removes a value."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    title: Annotated[str, Field(max_length=2000)] | None = None
    uri: Annotated[str, Field(max_length=8000)] | None = Field(
        default=None, description="link for readers"
    )
    metadata: MetadataField | None = Field(
        default=None,
        description="merged with the existing metadata (RFC 7396): null removes a member",
    )
    acl: Acl | None = Field(
        default=None,
        description="principals that may read it; null, and with `*`: the whole tenant; an empty "
        "list: no principal",
    )
    collection: NameField | None = Field(default=None, description="null: the default collection")


def decode_content(
    body: LinkedBody, document_id: str, place: tuple[str | int, ...] = ()
) -> tuple[bytes | None, str | None]:
    """Return the content of a document (None: it is at a URL), and its MIME type.

    Args:
        body: of the request.
        document_id: of the document.
        place: path of the body in the request, for error messages.

    Raises:
        InvalidFieldError: there is not exactly one content, or it is not Base64.
    """
    if [body.text, body.content_base64, body.url].count(None) != 2:
        raise InvalidFieldError(
            (*place, "text" if body.url is None else "url"),
            "send the content exactly once: as text, content_base64 or url",
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
        raise InvalidFieldError((*place, "content_base64"), "it must be Base64") from exc


_USER = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
_SECRET = re.compile(
    r"(?:^|[&;])(?=[^=&;]*+=)[^=&;]*(?:sig|token|secret|passw|credential|key|auth)", re.I
)


def redact_url(url: str | None) -> str | None:
    """Return a URL that may be shown: without a password, and without a query and fragment that
    seem to contain a signature or a key.
    """
    if url is None:
        return None
    url = _USER.sub(r"\1", url)
    bare, *rest = re.split(r"[?#]", url)
    return bare if _SECRET.search("&".join(rest)) else url


def guess_text_mime_type(document_id: str) -> str | None:
    """Return the MIME type of a text by the extension of its id; Markdown by default.

    Only text types count: the id of a text may end in `.pdf`.
    """
    last = document_id.rsplit("/", 1)[-1]
    return None if "." in last and detect_format(document_id, None) is not None else "text/markdown"
