"""Documents from JSON bodies, from raw content with query parameters, and from multipart forms."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Any

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from livedex.pipeline.http.bodies import media_type
from livedex.pipeline.http.multipart import Part, parse_boundary, parse_parts
from livedex.pipeline.http.validation import InvalidFieldError, parse_json, validate_model
from livedex.pipeline.ingest.change_request import (
    ChangeRequest,
    DocumentBody,
    DocumentIdField,
    LinkedBody,
    decode_content,
    redact_url,
)
from livedex.pipeline.model import DEFAULT_COLLECTION, DocumentId

UPLOAD_FIELDS = ("title", "uri", "metadata", "acl", "collection", "version")
"""Query parameters of a document whose body is the raw content."""

FORM_MEDIA_TYPE = "multipart/form-data"
_FILE = "file"
_URLENCODED = "application/x-www-form-urlencoded"
_GENERIC_MEDIA_TYPES = frozenset({"application/octet-stream", "binary/octet-stream"})
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,16}$")


class NewDocument(LinkedBody):
    """A document; without an id it gets a new one."""

    document_id: DocumentIdField | None = Field(default=None, description="default: a new id")


def request_from_body(document_id: DocumentId, body: LinkedBody) -> ChangeRequest:
    """Return the change for a JSON body.

    Args:
        document_id: of the document.
        body: of the request.

    Raises:
        RequestValidationError: the document has no content, or more than one.
    """
    content, mime_type = decode_content(body, document_id)
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


def request_from_json(raw: bytes) -> ChangeRequest:
    """Return the change for a JSON body with or without a document id."""
    body = validate_model(NewDocument, parse_json(raw))
    return request_from_body(DocumentId(body.document_id or generate_document_id("")), body)


def request_from_bytes(request: Request, document_id: DocumentId, raw: bytes) -> ChangeRequest:
    """Return the change for a body that is the raw content; query parameters hold the other fields.

    Args:
        request: with the query.
        document_id: of the document.
        raw: the body.

    Raises:
        RequestValidationError: a query parameter is invalid.
        HTTPException: 415, the Content-Type is missing.
    """
    media = media_type(request)
    if not media or media in (_URLENCODED, FORM_MEDIA_TYPE):
        raise HTTPException(
            415,
            "the Content-Type is missing: send that of the content, such as text/markdown "
            "(application/octet-stream: the extension of the id decides)",
        )
    values = {
        name: request.query_params.getlist(name)
        for name in UPLOAD_FIELDS
        if name in request.query_params
    }
    return _document(
        document_id,
        _decoded(raw, request.headers.get("content-type", ""), media),
        None if media in _GENERIC_MEDIA_TYPES else media,
        values,
    )


def request_from_form(request: Request, raw: bytes) -> ChangeRequest:
    """Return the change for a multipart form with a part `file` and parts for other fields.

    Args:
        request: with the Content-Type.
        raw: the body.

    Raises:
        InvalidFieldError: there is not exactly one file, a part is unknown, or a value is invalid.
    """
    parts = parse_parts(raw, parse_boundary(request.headers.get("content-type", "")))
    files = [part for part in parts if part.name == _FILE]
    if len(files) != 1:
        raise InvalidFieldError(
            (_FILE,), "a form needs exactly one part named file, with the document"
        )
    values: dict[str, list[str]] = {}
    for part in parts:
        if part.name not in (*UPLOAD_FIELDS, _FILE, "document_id", "mime_type"):
            raise InvalidFieldError(
                (part.name[:100],),
                "unknown part: a form may have file, document_id, mime_type, "
                f"{', '.join(UPLOAD_FIELDS)}",
            )
        if part.name != _FILE:
            values.setdefault(part.name, []).append(_text(part))
    file = files[0]
    made = validate_model(
        NewDocument,
        {
            "text": "",
            "document_id": _one(values, "document_id"),
            "mime_type": _one(values, "mime_type"),
        },
    )
    media = made.mime_type or (None if file.media in _GENERIC_MEDIA_TYPES else file.media or None)
    document_id = DocumentId(made.document_id or generate_document_id(file.filename or ""))
    return _document(
        document_id,
        file.content,
        media,
        {name: values[name] for name in UPLOAD_FIELDS if name in values},
        file.filename,
    )


def check_query_names(request: Request, known: Sequence[str]) -> None:
    """Check that the query has only known parameters.

    Args:
        request: with the query.
        known: names of the allowed parameters.

    Raises:
        InvalidFieldError: a parameter is unknown.
    """
    for name in request.query_params:
        if name not in known:
            raise InvalidFieldError(
                ("query", name),
                f"unknown parameter: this request takes {', '.join(known) or 'none'}",
            )


def reject_cross_site(request: Request) -> None:
    """Reject a request from a page of another site, because browsers send forms and plain texts
    across sites without a CORS preflight.

    Args:
        request: with the header `Sec-Fetch-Site` or `Origin`.

    Raises:
        HTTPException: 403, a page of another site sent it.
    """
    origin = request.headers.get("origin")
    if origin is None or "authorization" in request.headers or "x-api-key" in request.headers:
        return
    if origin.partition("://")[2] != request.headers.get("host", ""):
        raise HTTPException(403, "pages of other sites may send only JSON")


def generate_document_id(filename: str) -> str:
    """Return a new document id with the extension of a file name, which tells the format."""
    found = _EXTENSION.search(filename)
    return uuid.uuid4().hex + (found[0].lower() if found else "")


def _document(
    document_id: DocumentId,
    content: bytes,
    media: str | None,
    values: Mapping[str, Sequence[str]],
    filename: str | None = None,
) -> ChangeRequest:
    given: dict[str, Any] = {
        name: _one(values, name)
        for name in UPLOAD_FIELDS
        if name in values and name not in ("metadata", "acl")
    }
    if "metadata" in values:
        given["metadata"] = parse_json(
            (_one(values, "metadata") or "").encode("utf-8", "surrogatepass")
        )
    if "acl" in values:
        given["acl"] = [name for name in values["acl"] if name]
    body = validate_model(DocumentBody, {"text": "", "mime_type": media, **given})
    return ChangeRequest(
        document_id,
        content=content,
        version=body.version,
        mime_type=body.mime_type,
        title=body.title or filename or None,
        uri=body.uri,
        collection=body.collection or DEFAULT_COLLECTION,
        metadata=body.metadata or {},
        acl=body.acl,
    )


def _one(values: Mapping[str, Sequence[str]], name: str) -> str | None:
    given = values.get(name, ())
    if len(given) > 1:
        raise InvalidFieldError((name,), "it must be given only once")
    return given[0] if given else None


def _text(part: Part) -> str:
    try:
        return part.content.decode()
    except UnicodeDecodeError as exc:
        raise InvalidFieldError((part.name,), "it must be UTF-8") from exc


def _decoded(raw: bytes, content_type: str, media: str) -> bytes:
    """Return text content as UTF-8 if its Content-Type names another charset.

    Raises:
        InvalidFieldError: the content does not match the charset.
    """
    message = Message()
    message["content-type"] = content_type
    charset = message.get_content_charset()
    if charset is None or not media.startswith("text/") or charset in ("utf-8", "us-ascii"):
        return raw
    try:
        return raw.decode(charset).encode()
    except (LookupError, UnicodeError) as exc:
        raise InvalidFieldError(
            ("body",), "the content does not match the charset of its Content-Type"
        ) from exc
