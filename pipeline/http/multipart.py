"""Bodies of kind multipart/form-data, taken apart within bounds.

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
        filename: None where it is no file.
        media: what it says it is, without parameters, in lower case; '' where it does not.
    """

    name: str
    content: bytes
    filename: str | None = None
    media: str = ""


def parse_boundary(content_type: str) -> bytes:
    """What the parts of a body stand between.

    Raises:
        RequestValidationError: the header does not say.
        InvalidFieldError: a field has the wrong type; the error names it.
    """
    found = _parameters(content_type, "content-type").get("boundary", "")
    if not 1 <= len(found) <= 70 or not found.isascii():
        raise InvalidFieldError(("body",), "Content-Type: multipart/form-data needs its boundary")
    return found.encode()


def parse_parts(body: bytes, boundary: bytes) -> list[Part]:
    """The parts of a body, in their order.

    Raises:
        RequestValidationError: it is no form, or has too many parts.
        InvalidFieldError: a field has the wrong type; the error names it.
    """
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary)
    if len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        raise InvalidFieldError(("body",), "it is no multipart/form-data: its end is missing")
    if len(pieces) - 2 > MAX_PARTS:
        raise InvalidFieldError(("body",), f"a form has at most {MAX_PARTS} parts")
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> Part:
    head, blank, content = piece.partition(b"\r\n\r\n")
    if not blank or len(head) > _MOST_HEADER_BYTES:
        raise InvalidFieldError(
            ("body",), "a part of the form has no end of its headers, or too many of them"
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
