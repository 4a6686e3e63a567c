"""From the bytes of a file to its text, format, title and metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import NoTextError
from pipeline.extract.cleaning import clean_text
from pipeline.extract.decoding import decode
from pipeline.extract.formats import format_of, sniffed
from pipeline.extract.frontmatter import front_matter
from pipeline.model import TextFormat

_FIRST_HEADING = re.compile(
    r"^ {0,3}(?:"
    r"(?:(?:[-*+]|\d{1,9}[.)]) {1,4})*(?P<fence>```+|~~~+)(?:.*\n)(?s:.*?)(?:^ {0,7}(?P=fence)|\Z)"
    r"|<!--(?s:.*?)(?:-->|\Z)"
    r"|<(?P<raw>pre|script|style|textarea)\b(?s:.*?)(?:</(?P=raw)>|\Z)"
    r"|#[ \t]+(?P<title>\S.*)"
    r"|(?P<underlined>[^\s#>|*+`~<-].*)\n {0,3}=+[ \t]*$"
    r")",
    re.MULTILINE,
)
"""A title at the top level, or what hides lines that look like one: code, comments and raw HTML."""
_CLOSING = re.compile(r"(?:^|[ \t])#+$")
_RST_TITLE = re.compile(r"(?m)^(?:([!-/:-@\[-`{-~])\1{2,}[ \t]*\n[ \t]*)?(?P<title>\S.*)\n(?P<drawn>([!-/:-@\[-`{-~])\4{2,})[ \t]*$")
_MAX_TITLE = 300


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a document.

    Attributes:
        text: all of it, front matter included, with line ends as LF; offsets count its code points.
        start: where the body begins, behind front matter.
        title: from the front matter, else the first heading, else None.
        metadata: the front matter, cleaned.
    """

    text: str
    format: TextFormat
    mime_type: str
    start: int = 0
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


def extract(content: bytes, *, name: str, mime_type: str | None = None, max_bytes: int = 67_108_864) -> Extracted:
    """Read a document.

    Args:
        content: its bytes.
        name: a file name, for the format.
        mime_type: wins over the name, where it is known.
        max_bytes: larger content is refused.

    Raises:
        NoTextError: `too_large`, `empty` or `unsupported`; the message says what to do.
    """
    if len(content) > max_bytes:
        raise NoTextError(
            "too_large", f"{len(content)} bytes are more than LIVEDEX_MAX_DOCUMENT_BYTES ({max_bytes}): split it or raise the limit."
        )
    found = format_of(name, mime_type)
    if found is None:
        raise NoTextError(
            "unsupported",
            f"Files that end like {name.rsplit('/', 1)[-1][-40:]!r} cannot be read: convert it to text or Markdown, or exclude it.",
        )
    format_, mime = found
    text = clean_text(decode(content).replace("\r\n", "\n").replace("\r", "\n")).removeprefix("\ufeff")
    if not text.strip():
        raise NoTextError("empty", "The document holds no text: write some, or leave it out.")
    format_ = sniffed(text, format_)
    metadata, start = front_matter(text) if format_ == "markdown" else ({}, 0)
    return Extracted(text, format_, mime, start, _title(text, start, format_, metadata), metadata)


def _title(text: str, start: int, format_: TextFormat, metadata: dict[str, Any]) -> str | None:
    given = metadata.get("title")
    if isinstance(given, str | int | float) and str(given).strip():
        return str(given).strip()[:_MAX_TITLE]
    head = text[start : start + 8192]
    if format_ == "markdown":
        return _first_heading(head)
    return _first_drawn(head) if format_ == "rst" else None


def _first_heading(head: str) -> str | None:
    """The first title at the top level, outside of fenced code."""
    for found in _FIRST_HEADING.finditer(head):
        if title := found["title"] or found["underlined"]:
            return (_CLOSING.sub("", title.strip()) if found["title"] else title).strip()[:_MAX_TITLE] or None
    return None


def _first_drawn(head: str) -> str | None:
    """The first title with a line under it: four marks, or as many as the title has characters."""
    for found in _RST_TITLE.finditer(head):
        title = found["title"].strip()
        if len(found["drawn"]) >= min(len(title), 4):
            return title[:_MAX_TITLE]
    return None
