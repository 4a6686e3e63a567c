"""Documents that are sent as their bytes: the content is the body, and what goes with it stands in
the query, or in the parts of a form.
"""

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
"""What the query may say of a document whose content is the body."""

FORM_MEDIA_TYPE = "multipart/form-data"
_FILE = "file"
_URLENCODED = "application/x-www-form-urlencoded"
_GENERIC_MEDIA_TYPES = frozenset({"application/octet-stream", "binary/octet-stream"})
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,16}$")


class NewDocument(LinkedBody):
    """A document that may be without an id; then one is made."""

    document_id: DocumentIdField | None = Field(default=None, description="default: a new id")


def request_from_body(document_id: DocumentId, body: LinkedBody) -> ChangeRequest:
    """A document as JSON says it.

    Raises:
        RequestValidationError: it has no content, or two.
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
    """A document as JSON says it, with an id of its own or a new one."""
    body = validate_model(NewDocument, parse_json(raw))
    return request_from_body(DocumentId(body.document_id or generate_document_id("")), body)


def request_from_bytes(request: Request, document_id: DocumentId, raw: bytes) -> ChangeRequest:
    """A document whose bytes are the body, and of which the query says the rest.

    Raises:
        RequestValidationError: a value of the query makes no sense.
        HTTPException: 415, the body does not say what it is.
    """
    media = media_type(request)
    if not media or media in (_URLENCODED, FORM_MEDIA_TYPE):
        raise HTTPException(
            415,
            "say what the bytes are: send their Content-Type, such as text/markdown "
            "(application/octet-stream: its name says it)",
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
    """A document out of a form: its part `file`, and parts for the rest.

    Raises:
        RequestValidationError: there is no file, or two, or a value makes no sense.
    """
    parts = parse_parts(raw, parse_boundary(request.headers.get("content-type", "")))
    files = [part for part in parts if part.name == _FILE]
    if len(files) != 1:
        raise InvalidFieldError(
            (_FILE,), "a form has one part called file, with the document in it"
        )
    values: dict[str, list[str]] = {}
    for part in parts:
        if part.name not in (*UPLOAD_FIELDS, _FILE, "document_id", "mime_type"):
            raise InvalidFieldError(
                (part.name[:100],),
                "no such part: a form has file, document_id, mime_type, "
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
    """Go on only with a query that says nothing else.

    Raises:
        RequestValidationError: a name is none of these.
    """
    for name in request.query_params:
        if name not in known:
            raise InvalidFieldError(
                ("query", name), f"no such parameter here: {', '.join(known) or 'there is none'}"
            )


def reject_cross_site(request: Request) -> None:
    """Go on only where no web page sends it without asking first: a browser sends forms and plain
    texts to other sites unasked, and no key with them.

    Raises:
        HTTPException: 403, it comes from a page of another site.
    """
    origin = request.headers.get("origin")
    if origin is None or "authorization" in request.headers or "x-api-key" in request.headers:
        return
    if origin.partition("://")[2] != request.headers.get("host", ""):
        raise HTTPException(403, "a page of another site sends nothing but JSON here")


def generate_document_id(filename: str) -> str:
    """An id that nothing has, with the extension of a file, which says what it is."""
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
        raise InvalidFieldError((name,), "give it once")
    return given[0] if given else None


def _text(part: Part) -> str:
    try:
        return part.content.decode()
    except UnicodeDecodeError as exc:
        raise InvalidFieldError((part.name,), "it is no UTF-8") from exc


def _decoded(raw: bytes, content_type: str, media: str) -> bytes:
    """Bytes as UTF-8, where they say that they are a text in another encoding."""
    message = Message()
    message["content-type"] = content_type
    charset = message.get_content_charset()
    if charset is None or not media.startswith("text/") or charset in ("utf-8", "us-ascii"):
        return raw
    try:
        return raw.decode(charset).encode()
    except (LookupError, UnicodeError) as exc:
        raise InvalidFieldError(
            ("body",), "it is no text in the charset that its Content-Type names"
        ) from exc
