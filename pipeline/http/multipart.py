"""A parser for multipart/form-data with size limits.

Source: RFC 7578; RFC 2046, section 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message

from livedex.pipeline.http.validation import InvalidFieldError

MAX_PARTS = 50
_MOST_HEADER_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a form.

    Attributes:
        name: of its field.
        content: of the part.
        filename: None: it is not a file.
        media: its media type, without parameters and in lower case; '' if missing.
    """

    name: str
    content: bytes
    filename: str | None = None
    media: str = ""


def parse_boundary(content_type: str) -> bytes:
    """Return the boundary in a Content-Type header.

    Args:
        content_type: the header.

    Raises:
        InvalidFieldError: the boundary is missing.
    """
    found = _parameters(content_type, "content-type").get("boundary", "")
    if not 1 <= len(found) <= 70 or not found.isascii():
        raise InvalidFieldError(("body",), "Content-Type: multipart/form-data needs its boundary")
    return found.encode()


def parse_parts(body: bytes, boundary: bytes) -> list[Part]:
    """Return the parts of a body in order.

    Args:
        body: of the request.
        boundary: from the Content-Type.

    Raises:
        InvalidFieldError: the body is not a form, or has too many parts.
    """
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        raise InvalidFieldError(("body",), "invalid multipart/form-data: the end is missing")
    if len(pieces) - 2 > MAX_PARTS:
        raise InvalidFieldError(("body",), f"a form may have at most {MAX_PARTS} parts")
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> Part:
    head, blank, content = piece.partition(b"\r\n\r\n")
    if not blank or len(head) > _MOST_HEADER_BYTES:
        raise InvalidFieldError(
            ("body",), "the headers of a part of the form are incomplete or too long"
        )
    headers: dict[str, str] = {}
    for line in head.split(b"\r\n"):
        name, colon, value = line.decode("utf-8", "replace").partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    said = _parameters(headers.get("content-disposition", ""), "content-disposition")
    if "name" not in said:
        raise InvalidFieldError(("body",), "a part of the form has no name")
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    return Part(said["name"], content, said.get("filename"), media)


def _parameters(value: str, header: str) -> dict[str, str]:
    message = Message()
    message[header] = value.replace("\r", " ").replace("\n", " ")
    found: dict[str, str] = {}
    for name, each in message.get_params([], header=header)[1:]:
        found[name.lower()] = each if isinstance(each, str) else str(each[2])
    return found
