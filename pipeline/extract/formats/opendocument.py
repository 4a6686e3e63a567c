"""ODT, ODS and ODP: text, spreadsheets and presentations of OpenDocument."""

from __future__ import annotations

from collections.abc import Iterator

from livedex.pipeline.extract.formats import markdown_writer as md
from livedex.pipeline.extract.formats.archive import XmlElement, attribute, local_name, open_archive
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.format_errors import CorruptFileError, EncryptedFileError
from livedex.pipeline.extract.formats.office_properties import read_properties
from livedex.pipeline.extract.formats.spreadsheet import tables

MAX_REPEATED = 1_000  # of one cell or row: the rest of a sheet is one repeated empty cell
_SKIPPED = frozenset({"tracked-changes", "annotation", "sequence-decls", "forms", "settings"})


def read_opendocument(content: bytes) -> ConvertedDocument:
    """Read an OpenDocument file.

    Raises:
        NoTextError: `encrypted`, `corrupt` or `too_large`.
        CorruptFileError: the file is damaged.
        EncryptedFileError: the file needs a password.
    """
    with open_archive(content) as archive:
        manifest = archive.read_xml("META-INF/manifest.xml")
        if manifest is not None and any(
            local_name(element) == "encryption-data" for element in manifest.iter()
        ):
            raise EncryptedFileError()
        root = archive.read_xml("content.xml")
        if root is None:
            raise CorruptFileError()
        body = next((e for e in root.iter() if local_name(e) == "body"), root)
        title, metadata = read_properties(archive, "meta.xml")
        return ConvertedDocument(md.join_blocks(list(_blocks(body))), "markdown", title, metadata)


def _blocks(parent: XmlElement, depth: int = -1) -> Iterator[str]:
    for element in parent:
        name = local_name(element)
        if name in _SKIPPED or not name:
            continue
        if name == "h":
            level = attribute(element, "outline-level") or "1"
            yield md.heading(_text(element), int(level) if level.isdigit() else 1)
        elif name == "p":
            text = _text(element)
            yield md.paragraph(text) if depth < 0 else md.list_item(text, depth)
        elif name == "list":
            yield from _blocks(element, depth + 1)
        elif name == "table":
            rows = list(_rows(element))
            sheet = attribute(element, "name")
            if local_name(parent) == "spreadsheet" and sheet and any(map(any, rows)):
                yield md.heading(sheet, 2)
            yield from tables(rows)
        elif name == "page" and (title := attribute(element, "name")):
            yield md.heading(title, 2)
            yield from _blocks(element, depth)
        else:
            yield from _blocks(element, depth)


def _rows(element: XmlElement) -> Iterator[list[str]]:
    for row in element.iter():
        if local_name(row) != "table-row":
            continue
        cells: list[str] = []
        for cell in row:
            if local_name(cell) not in ("table-cell", "covered-table-cell"):
                continue
            text = " ".join(_text(p) for p in cell.iter() if local_name(p) in ("p", "h"))
            cells += [text] * _repeated(cell, "number-columns-repeated", text)
        yield cells


def _repeated(element: XmlElement, name: str, text: str) -> int:
    value = attribute(element, name) or "1"
    times = int(value) if value.isdigit() else 1
    return min(times, MAX_REPEATED if text else 64)


def _text(element: XmlElement) -> str:
    parts = [element.text or ""]
    for child in element:
        name = local_name(child)
        if name == "s" or name == "tab":
            parts.append(" ")
        elif name == "line-break":
            parts.append("\n")
        elif name and name not in _SKIPPED and name != "note-citation":
            parts.append(_text(child))
        parts.append(child.tail or "")
    return "".join(parts)
