"""EML: headers and text of a mail; attachments are named."""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage
from typing import Any

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.formats import markdown_writer as md
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.html import read_html
from livedex.pipeline.extract.text_decoder import decode_text

_HEADERS = ("From", "To", "Cc", "Date")
MAX_PARTS = 1_000


def read_eml(content: bytes) -> ConvertedDocument:
    """Read a mail."""
    message: Any = email.message_from_bytes(content, policy=email.policy.default)
    subject = _header(message, "Subject")
    lines = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
    body = message.get_body(("plain", "html")) if isinstance(message, EmailMessage) else None
    text = _text(body) if body is not None else ""
    names = [
        part.get_filename() or "unnamed"
        for part, _ in zip(message.iter_attachments(), range(MAX_PARTS), strict=False)
    ]
    blocks = [
        md.heading(subject, 1),
        md.paragraph("\n".join(lines)),
        text,
        md.paragraph(f"Attachments: {', '.join(names)}") if names else "",
    ]
    metadata: dict[str, Any] = {}
    if sender := _header(message, "From"):
        metadata["author"] = sender
    if names:
        metadata["attachments"] = names[:100]
    return ConvertedDocument(md.join_blocks(blocks), "markdown", subject or None, metadata)


def _header(message: Any, name: str) -> str:
    try:
        return " ".join(str(message.get(name) or "").split())[:2_000]
    except (ValueError, LookupError, IndexError, AttributeError, TypeError):
        return ""  # the standard library trips over some malformed headers


def _text(part: Any) -> str:
    try:
        payload = part.get_payload(decode=True) or b""
    except (ValueError, LookupError):
        return ""
    charset = part.get_content_charset()
    if part.get_content_type() == "text/html":
        try:
            return read_html(payload, charset).text
        except NoTextError:
            return ""
    try:
        text = payload.decode(charset or "utf-8")
    except (LookupError, UnicodeDecodeError):
        text = decode_text(payload)
    paragraphs = text.replace("\r\n", "\n").split("\n\n")
    return "\n\n".join(filter(None, (md.paragraph(each) for each in paragraphs)))
