"""XLSX: each sheet is a heading and a table of its values, as they were computed last."""

from __future__ import annotations

import re
from collections.abc import Sequence

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.formats import markdown_writer as md
from livedex.pipeline.extract.formats.archive import Archive, XmlElement, local_name, open_archive
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.format_errors import CorruptFileError
from livedex.pipeline.extract.formats.office_properties import read_properties

MAX_CELLS = 2_000_000
ROWS_PER_TABLE = 20  # then the head is repeated, so that each chunk has it
_COLUMN = re.compile(r"[A-Z]+")


def read_xlsx(content: bytes) -> ConvertedDocument:
    """Read a workbook.

    Raises:
        NoTextError: `encrypted`, `corrupt` or `too_large`.
        CorruptFileError: the file is damaged.
    """
    with open_archive(content) as archive:
        workbook = archive.read_xml("xl/workbook.xml")
        if workbook is None:
            raise CorruptFileError()
        shared = _shared_strings(archive)
        targets = _targets(archive)
        blocks: list[str] = []
        for element in workbook.iter():
            if local_name(element) != "sheet" or element.get("state") in ("hidden", "veryHidden"):
                continue
            relation = next((v for k, v in element.attrib.items() if str(k).endswith("}id")), "")
            sheet = archive.read_xml(targets.get(str(relation), ""))
            rows = _rows(sheet, shared) if sheet is not None else []
            if rows:
                blocks += [md.heading(element.get("name") or "Sheet", 2), *tables(rows)]
        title, metadata = read_properties(archive)
    return ConvertedDocument(md.join_blocks(blocks), "markdown", title, metadata)


def tables(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows as tables, each with the first row as its head."""
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    if len(filled) < 2:
        return [md.table(filled)]
    head, rest = filled[0], filled[1:]
    return [
        md.table([head, *rest[at : at + ROWS_PER_TABLE]])
        for at in range(0, len(rest), ROWS_PER_TABLE)
    ]


def _targets(archive: Archive) -> dict[str, str]:
    root = archive.read_xml("xl/_rels/workbook.xml.rels")
    found = {}
    for relation in root if root is not None else ():
        target = relation.get("Target") or ""
        found[relation.get("Id") or ""] = (
            target.lstrip("/") if target.startswith("/") else f"xl/{target}"
        )
    return found


def _shared_strings(archive: Archive) -> list[str]:
    root = archive.read_xml("xl/sharedStrings.xml")
    return [_text(item) for item in root if local_name(item) == "si"] if root is not None else []


def _text(element: XmlElement) -> str:
    return "".join(
        child.text or ""
        for child in element.iter()
        if local_name(child) == "t"
        and not any(local_name(parent) == "rPh" for parent in child.iterancestors())
    )


def _rows(sheet: XmlElement, shared: Sequence[str]) -> list[list[str]]:
    found: list[list[str]] = []
    cells = 0
    for row in sheet.iter():
        if local_name(row) != "row":
            continue
        values: list[str] = []
        for cell in row:
            if local_name(cell) != "c":
                continue
            cells += 1
            if cells > MAX_CELLS:
                raise NoTextError("too_large", f"The workbook has more than {MAX_CELLS} cells.")
            column = _column(cell.get("r") or "")
            if column is not None and len(values) < column <= 16_384:
                values += [""] * (column - len(values))
            values.append(_value(cell, shared))
        found.append(values)
    return found


def _column(reference: str) -> int | None:
    match = _COLUMN.match(reference)
    if match is None:
        return None
    number = 0
    for letter in match[0][:4]:
        number = 26 * number + ord(letter) - 64
    return number - 1


def _value(cell: XmlElement, shared: Sequence[str]) -> str:
    kind = cell.get("t")
    if kind == "inlineStr":
        return _text(cell)
    value = next((child.text or "" for child in cell if local_name(child) == "v"), "")
    if kind == "s":
        return shared[int(value)] if value.isdigit() and int(value) < len(shared) else ""
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    return value
