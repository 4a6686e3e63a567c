"""From the bytes of a document to its text, by the reader of its format."""

from __future__ import annotations

from collections.abc import Callable

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.detection import MIME_TYPES, DocumentFormat, detect_document
from livedex.pipeline.extract.formats.format_errors import CorruptFileError, EncryptedFileError


def convert_document(
    content: bytes, extension: str, mime_type: str
) -> tuple[ConvertedDocument, str] | None:
    """Convert a document that is not plain text.

    Args:
        content: of the file.
        extension: of its name, in lower case without the dot.
        mime_type: as its source says, with its parameters; may be empty.

    Returns:
        Its text and its MIME type; None for a text that is read as it stands.

    Raises:
        NoTextError: `unsupported`, `encrypted`, `corrupt`, `no_text`, `empty` or `too_large`; the
            message says what to do.
        CorruptFileError: the file is damaged.
        EncryptedFileError: the file needs a password.
    """
    kind, _, parameters = mime_type.partition(";")
    found = detect_document(content, extension, kind.strip().lower())
    if found is None or not content.strip():
        return None
    if found == "legacy_office":
        if "EncryptedPackage".encode("utf-16-le") in content:
            raise EncryptedFileError()
        raise NoTextError(
            "unsupported",
            "Files of Office 97 to 2003 cannot be read: save them as DOCX, XLSX or PPTX.",
        )
    if found == "html":
        charset = parameters.lower().partition("charset=")[2].strip("\"' ;") or None
        return _html()(content, charset), MIME_TYPES["html"]
    try:
        return _reader(found)(content), MIME_TYPES[found]
    except RecursionError as exc:
        raise CorruptFileError() from exc


def _html() -> Callable[[bytes, str | None], ConvertedDocument]:
    from livedex.pipeline.extract.formats.html import read_html

    return read_html


def _reader(found: DocumentFormat) -> Callable[[bytes], ConvertedDocument]:
    """Import the reader of a format only when a document needs it."""
    if found == "pdf":
        from livedex.pipeline.extract.formats.pdf import read_pdf as reader
    elif found == "docx":
        from livedex.pipeline.extract.formats.word import read_docx as reader
    elif found == "pptx":
        from livedex.pipeline.extract.formats.presentation import read_pptx as reader
    elif found == "xlsx":
        from livedex.pipeline.extract.formats.spreadsheet import read_xlsx as reader
    elif found in ("odt", "ods", "odp"):
        from livedex.pipeline.extract.formats.opendocument import read_opendocument as reader
    elif found == "epub":
        from livedex.pipeline.extract.formats.epub import read_epub as reader
    elif found == "eml":
        from livedex.pipeline.extract.formats.mail import read_eml as reader
    elif found == "ipynb":
        from livedex.pipeline.extract.formats.notebook import read_ipynb as reader
    else:
        from livedex.pipeline.extract.formats.rtf import read_rtf as reader
    return reader
