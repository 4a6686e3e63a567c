"""PDF: the text layer, page by page, without running headers and footers.

Lines are joined to paragraphs, and words that are hyphenated at the end of a line are joined again.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.format_errors import CorruptFileError, EncryptedFileError

MAX_PAGES = 20_000
MAX_CHARACTERS = 64 * 1024 * 1024
_NUMBERS = re.compile(r"\d+")
_EDGE_LINES = 2  # at the top and bottom of a page that may be running headers and footers
_SENTENCE_END = re.compile(r"[.!?:;。！？…\"'”’)\]]$")
_LIST_START = re.compile(r"^(?:[•‣◦▪·*–—-]\s|\(?\d{1,3}[.)]\s|[a-z]\)\s)")
_PASSWORD_ERROR = 4  # FPDF_ERR_PASSWORD; Source: PDFium, public/fpdfview.h


def read_pdf(content: bytes) -> ConvertedDocument:
    """Read a PDF.

    Raises:
        NoTextError: `encrypted`, `corrupt`, `no_text` or `too_large`.
        CorruptFileError: the file is damaged.
        EncryptedFileError: the file needs a password.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as exc:
        if "assword" in str(exc):
            raise EncryptedFileError() from exc
        raise CorruptFileError() from exc
    try:
        if len(document) > MAX_PAGES:
            raise NoTextError("too_large", f"The PDF has more than {MAX_PAGES} pages: split it.")
        pages = _pages(document)
        metadata, title = _information(document)
    except pypdfium2.PdfiumError as exc:
        raise CorruptFileError() from exc
    finally:
        document.close()
    text = "\n\n".join(filter(None, (_paragraphs(page) for page in _without_running(pages))))
    if not text.strip():
        raise NoTextError(
            "no_text",
            "The PDF has no text, only pictures: run OCR over it, for example with ocrmypdf.",
        )
    return ConvertedDocument(text, "plain", title, {**metadata, "pages": len(pages)})


def _pages(document: Any) -> list[list[str]]:
    found, size = [], 0
    for number in range(len(document)):
        page = document[number]
        layer = page.get_textpage()
        text = layer.get_text_bounded().replace("\r\n", "\n").replace("\r", "\n")
        layer.close()
        page.close()
        size += len(text)
        if size > MAX_CHARACTERS:
            raise NoTextError("too_large", "The PDF has too much text: split it.")
        # PDFium marks a hyphen at the end of a line with U+FFFE or U+0002
        text = text.replace("\ufffe\n", "").replace("\x02\n", "")
        text = text.replace("\ufffe", "").replace("\x02", "").replace("\x00", "")
        found.append([line.strip() for line in text.split("\n") if line.strip()])
    return found


def _without_running(pages: list[list[str]]) -> list[list[str]]:
    """Remove first and last lines that most pages share but for numbers."""
    if len(pages) < 3:
        return pages
    counts: Counter[str] = Counter()
    for page in pages:
        counts.update({_shape(line) for line in (*page[:_EDGE_LINES], *page[-_EDGE_LINES:])})
    running = {shape for shape, count in counts.items() if count > len(pages) // 2}
    cleaned = []
    for page in pages:
        first, last = 0, len(page)
        while first < min(_EDGE_LINES, last) and _shape(page[first]) in running:
            first += 1
        while last > max(first, len(page) - _EDGE_LINES) and _shape(page[last - 1]) in running:
            last -= 1
        cleaned.append(page[first:last])
    return cleaned


def _shape(line: str) -> str:
    return _NUMBERS.sub("#", line)


def _paragraphs(lines: list[str]) -> str:
    """Join lines that belong to one paragraph: those that are as long as the others."""
    if not lines:
        return ""
    full = sorted(map(len, lines))[int(0.8 * (len(lines) - 1))]
    blocks: list[str] = []
    for n, line in enumerate(lines):
        before = lines[n - 1] if n else ""
        ends = len(before) < 0.6 * full or (
            _SENTENCE_END.search(before) is not None and len(before) < 0.85 * full
        )
        if not blocks or ends or _LIST_START.match(line):
            blocks.append(line)
        elif before.endswith("-") and before[-2:-1].isalpha() and line[:1].islower():
            blocks[-1] = blocks[-1][:-1] + line
        else:
            blocks[-1] += f" {line}"
    return "\n\n".join(blocks)


def _information(document: Any) -> tuple[dict[str, Any], str | None]:
    given = document.get_metadata_dict(skip_empty=True)
    names = {"Author": "author", "Subject": "subject", "Keywords": "keywords"}
    found = {name: given[key].strip() for key, name in names.items() if given.get(key, "").strip()}
    title = (given.get("Title") or "").strip()
    return found, title or None
