"""Which reader a document needs: by its content first, then by its name."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Literal, TypeAlias

DocumentFormat: TypeAlias = Literal[
    "pdf",
    "docx",
    "pptx",
    "xlsx",
    "odt",
    "ods",
    "odp",
    "epub",
    "html",
    "eml",
    "ipynb",
    "rtf",
    "legacy_office",
]

MIME_TYPES: dict[DocumentFormat, str] = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "epub": "application/epub+zip",
    "html": "text/html",
    "eml": "message/rfc822",
    "ipynb": "application/x-ipynb+json",
    "rtf": "application/rtf",
    "legacy_office": "application/x-ole-storage",
}
_BY_MIME: dict[str, DocumentFormat] = {
    **{mime: format_ for format_, mime in MIME_TYPES.items()},
    "application/xhtml+xml": "html",
    "text/rtf": "rtf",
    "application/x-pdf": "pdf",
}
_BY_EXTENSION: dict[str, DocumentFormat] = {
    "pdf": "pdf",
    "docx": "docx",
    "docm": "docx",
    "dotx": "docx",
    "pptx": "pptx",
    "pptm": "pptx",
    "ppsx": "pptx",
    "xlsx": "xlsx",
    "xlsm": "xlsx",
    "odt": "odt",
    "ods": "ods",
    "odp": "odp",
    "epub": "epub",
    "html": "html",
    "htm": "html",
    "xhtml": "html",
    "eml": "eml",
    "ipynb": "ipynb",
    "rtf": "rtf",
}
DOCUMENT_EXTENSIONS = frozenset(_BY_EXTENSION)
"""Extensions of files that are read by default."""
_PARTS: tuple[tuple[str, DocumentFormat], ...] = (
    ("word/document.xml", "docx"),
    ("ppt/presentation.xml", "pptx"),
    ("xl/workbook.xml", "xlsx"),
)
_PDF_HEAD = 1_024  # bytes in which the mark of a PDF stands; Source: PDF 1.7, appendix H.3.4.1
_HTML_HEAD = 2_048
_TEXT_FORMATS = frozenset[DocumentFormat](("html", "eml", "ipynb"))


def detect_document(content: bytes, extension: str, mime_type: str) -> DocumentFormat | None:
    """Return the reader that a document needs; None if it is a text as it stands.

    Args:
        content: of the file.
        extension: of its name, in lower case without the dot.
        mime_type: as its source says, in lower case without parameters; may be empty.
    """
    given = _BY_MIME.get(mime_type)
    if given is None and not mime_type.startswith("text/"):
        given = _BY_EXTENSION.get(extension)
    if b"%PDF-" in content[:_PDF_HEAD] and (given == "pdf" or content.startswith(b"%PDF-")):
        return "pdf"
    if content.startswith(b"PK\x03\x04"):
        return _in_archive(content) or (given if given not in _TEXT_FORMATS else None)
    if content.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "legacy_office"
    if content.startswith(b"{\\rtf"):
        return "rtf"
    if given is not None:
        return given
    head = content[:_HTML_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not extension and head.startswith((b"<!doctype html", b"<html")):
        return "html"
    return None


def needs_conversion(content: bytes, extension: str, mime_type: str) -> bool:
    """Return whether a document is read in a process of its own, since its reader is a parser of
    a complex format.
    """
    return detect_document(content, extension, mime_type) is not None


def _in_archive(content: bytes) -> DocumentFormat | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = set(archive.namelist())
            for part, format_ in _PARTS:
                if part in names:
                    return format_
            if "mimetype" in names and archive.getinfo("mimetype").file_size < 200:
                return _BY_MIME.get(archive.read("mimetype").decode("ascii", "replace").strip())
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, NotImplementedError, ValueError):
        return None
    return None
