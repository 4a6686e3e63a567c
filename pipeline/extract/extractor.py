"""From the bytes of a file to its text, format, title and metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.embedded_data import Span, embedded_data_spans
from livedex.pipeline.extract.formats import convert_document
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.front_matter import FrontMatter, parse_front_matter
from livedex.pipeline.extract.sanitizer import sanitize_json, sanitize_text
from livedex.pipeline.extract.text_decoder import decode_text
from livedex.pipeline.extract.text_formats import detect_format, file_extension, sniff_format
from livedex.pipeline.extract.title import find_title
from livedex.pipeline.model import DEFAULT_MAX_DOCUMENT_BYTES, TextFormat

EXCLUDED_CHARACTERS_KEY = "left_out_characters"
_LINE_ENDS = ("\r\n", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c")
_MAX_TITLE = 300


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of a document.

    Attributes:
        text: all of it, front matter included, with every kind of line end as LF; offsets count its
            code points.
        start: where the body begins, behind front matter.
        title: from the front matter, else the first heading, else None.
        metadata: the front matter, cleaned; `front_matter_error` says what of it could not be read,
            `left_out_characters` how much is no text.
        front: front matter that is searchable text: there is no body, or it could not be read.
        left_out: what stands in the text and is none, in order.
    """

    text: str
    format: TextFormat
    mime_type: str
    start: int = 0
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    searchable_front_matter: Span | None = None
    left_out: tuple[Span, ...] = ()


def extract(
    content: bytes,
    *,
    name: str,
    mime_type: str | None = None,
    max_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES,
) -> ExtractedText:
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
            "too_large",
            f"{len(content)} bytes are more than LIVEDEX_MAX_DOCUMENT_BYTES ({max_bytes}): "
            "split it or raise the limit.",
        )
    converted = convert_document(content, file_extension(name), mime_type or "")
    if converted is not None:
        return _extracted(*converted)
    found = detect_format(name, mime_type)
    if found is None:
        raise NoTextError(
            "unsupported",
            f"Files that end like {name.rsplit('/', 1)[-1][-40:]!r} cannot be read: convert "
            "it to text or Markdown, or exclude it.",
        )
    format_, mime = found
    text = _with_one_line_end(sanitize_text(decode_text(content))).removeprefix("\ufeff")
    if not text.strip():
        raise NoTextError("empty", "The document holds no text: write some, or leave it out.")
    format_ = sniff_format(text, format_, name)
    front = parse_front_matter(text) if format_ == "markdown" else None
    start = front.start if front is not None else 0
    metadata = dict(front.metadata) if front is not None else {}
    left_out = embedded_data_spans(text)
    if left_out:
        metadata[EXCLUDED_CHARACTERS_KEY] = sum(b - a for a, b in left_out)
    return ExtractedText(
        text,
        format_,
        mime,
        start,
        _title(text, start, format_, metadata),
        metadata,
        _searchable(text, front),
        left_out,
    )


def _extracted(document: ConvertedDocument, mime_type: str) -> ExtractedText:
    """The text of a document that was converted; it has no front matter.

    Raises:
        NoTextError: no text can be read; the error says why.
    """
    text = _with_one_line_end(sanitize_text(document.text)).strip("\n")
    if not text.strip():
        raise NoTextError("empty", "The document holds no text: write some, or leave it out.")
    metadata = {name: sanitize_json(value) for name, value in document.metadata.items()}
    left_out = embedded_data_spans(text)
    if left_out:
        metadata[EXCLUDED_CHARACTERS_KEY] = sum(b - a for a, b in left_out)
    title = sanitize_text(document.title).strip()[:_MAX_TITLE] if document.title else ""
    return ExtractedText(
        text,
        document.format,
        mime_type,
        title=title or find_title(text, 0, document.format),
        metadata=metadata,
        left_out=left_out,
    )


def _with_one_line_end(text: str) -> str:
    for mark in _LINE_ENDS:
        if mark in text:
            text = text.replace(mark, "\n")
    return text


def _searchable(text: str, found: FrontMatter | None) -> Span | None:
    """The front matter, where nobody would find it otherwise."""
    if found is None or (found.is_whole and text[found.start :].strip()):
        return None
    start, end = found.span
    piece = text[start:end]
    return (
        (start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip()))
        if piece.strip()
        else None
    )


def _title(text: str, start: int, format_: TextFormat, metadata: dict[str, Any]) -> str | None:
    given = metadata.get("title")
    if isinstance(given, str | int | float) and not isinstance(given, bool) and str(given).strip():
        return str(given).strip()[:_MAX_TITLE]
    return find_title(text, start, format_)
