"""DOCX: headings by style, lists, tables, notes and text boxes, in reading order."""

from __future__ import annotations

import re

from livedex.pipeline.extract.formats import markdown_writer as md
from livedex.pipeline.extract.formats.archive import (
    Archive,
    XmlElement,
    attribute,
    local_name,
    open_archive,
)
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.format_errors import CorruptFileError
from livedex.pipeline.extract.formats.office_properties import read_properties

_HEADING = re.compile(r"^(?:heading|überschrift|titre|título|titolo|kop|rubrik)\s*(\d)", re.I)
_TITLES = frozenset({"title", "titel", "titre"})
_SKIPPED = frozenset({"instrText", "delText", "moveFrom", "del"})


def read_docx(content: bytes) -> ConvertedDocument:
    """Read a Word document.

    Raises:
        NoTextError: `encrypted`, `corrupt` or `too_large`.
        CorruptFileError: the file is damaged.
    """
    with open_archive(content) as archive:
        root = archive.read_xml("word/document.xml")
        if root is None:
            raise CorruptFileError()
        levels = _heading_levels(archive)
        body = next((e for e in root if local_name(e) == "body"), root)
        blocks = _blocks(body, levels)
        for name in ("word/footnotes.xml", "word/endnotes.xml"):
            notes = archive.read_xml(name)
            if notes is not None:
                texts = (_text(note) for note in notes if attribute(note, "type") is None)
                blocks += [md.paragraph(text) for text in texts]
        title, metadata = read_properties(archive)
    return ConvertedDocument(md.join_blocks(blocks), "markdown", title, metadata)


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Read which paragraph styles are headings, by their ids; level 0 is the title."""
    styles = archive.read_xml("word/styles.xml")
    found: dict[str, int] = {}
    for style in styles if styles is not None else ():
        style_id = attribute(style, "styleId")
        if local_name(style) != "style" or style_id is None:
            continue
        for child in style.iter():
            name, value = local_name(child), attribute(child, "val") or ""
            if name == "name" and (match := _HEADING.match(value)):
                found[style_id] = int(match[1])
            elif name == "name" and value.lower() in _TITLES:
                found[style_id] = 0
            elif name == "outlineLvl" and value.isdigit() and int(value) < 9:
                found.setdefault(style_id, int(value) + 1)
    return found


def _blocks(parent: XmlElement, levels: dict[str, int]) -> list[str]:
    found: list[str] = []
    for element in parent:
        name = local_name(element)
        if name == "p":
            found.append(_paragraph(element, levels))
        elif name == "tbl":
            rows = [row for row in element if local_name(row) == "tr"]
            found.append(
                md.table([[_text(c) for c in row if local_name(c) == "tc"] for row in rows])
            )
        elif name in ("sdt", "sdtContent", "ins", "smartTag", "customXml"):
            found += _blocks(element, levels)
    return found


def _paragraph(element: XmlElement, levels: dict[str, int]) -> str:
    text = _text(element)
    style, depth = "", None
    for child in element:
        if local_name(child) != "pPr":
            continue
        for property_ in child.iter():
            if local_name(property_) == "pStyle":
                style = attribute(property_, "val") or ""
            elif local_name(property_) == "ilvl":
                depth = int(attribute(property_, "val") or 0)
            elif local_name(property_) == "numId" and depth is None:
                depth = 0
    if style in levels:
        return md.heading(text, max(1, levels[style]))
    return md.paragraph(text) if depth is None else md.list_item(text, min(depth, 8))


def _text(element: XmlElement) -> str:
    parts: list[str] = []
    _collect(element, parts)
    return "".join(parts).strip("\n")


def _collect(element: XmlElement, parts: list[str]) -> None:
    for child in element:
        name = local_name(child)
        if name in _SKIPPED or name == "Fallback":
            continue
        if name == "t":
            parts.append(child.text or "")
        elif name == "tab":
            parts.append(" ")
        elif name in ("br", "cr"):
            parts.append("\n")
        elif name in ("noBreakHyphen", "softHyphen"):
            parts.append("-" if name == "noBreakHyphen" else "")
        else:
            _collect(child, parts)
            if name == "p":
                parts.append("\n")
