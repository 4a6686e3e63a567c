"""PPTX: slides in their order, with titles, lists, tables and notes."""

from __future__ import annotations

import posixpath

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

_TITLES = frozenset({"title", "ctrTitle"})
_FURNITURE = frozenset({"sldNum", "dt", "ftr", "hdr"})


def read_pptx(content: bytes) -> ConvertedDocument:
    """Read a presentation.

    Raises:
        NoTextError: `encrypted`, `corrupt` or `too_large`.
        CorruptFileError: the file is damaged.
    """
    with open_archive(content) as archive:
        root = archive.read_xml("ppt/presentation.xml")
        if root is None:
            raise CorruptFileError()
        targets = _relations(archive, "ppt/presentation.xml")
        slides = [
            targets[relation]
            for element in root.iter()
            if local_name(element) == "sldId" and (relation := _relation_id(element)) in targets
        ]
        blocks: list[str] = []
        for number, name in enumerate(slides, 1):
            slide = archive.read_xml(name)
            if slide is not None:
                blocks += _slide(slide, number)
            for kind, target in _relations(archive, name).items():
                if "notesSlide" in target and kind:
                    notes = archive.read_xml(target)
                    blocks += _notes(notes) if notes is not None else []
        title, metadata = read_properties(archive)
    return ConvertedDocument(
        md.join_blocks(blocks), "markdown", title, {**metadata, "slides": len(slides)}
    )


def _relation_id(element: XmlElement) -> str:
    """The attribute `r:id`; `id` alone is the number of the slide."""
    for key, value in element.attrib.items():
        if str(key).endswith("}id"):
            return str(value)
    return ""


def _relations(archive: Archive, part: str) -> dict[str, str]:
    folder, name = posixpath.split(part)
    root = archive.read_xml(f"{folder}/_rels/{name}.rels")
    found = {}
    for relation in root if root is not None else ():
        target = relation.get("Target") or ""
        path = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
        found[relation.get("Id") or ""] = posixpath.normpath(path)
    return found


def _slide(root: XmlElement, number: int) -> list[str]:
    title, blocks = "", list[str]()
    for shape in root.iter():
        name = local_name(shape)
        if name == "sp":
            kinds = {attribute(e, "type") or "body" for e in shape.iter() if local_name(e) == "ph"}
            lines = _lines(shape)
            if kinds & _FURNITURE:
                continue
            if kinds & _TITLES and not title:
                title = " ".join(text for text, _ in lines)
            elif kinds:
                blocks += [md.list_item(text, depth) for text, depth in lines]
            else:
                blocks += [md.paragraph(text) for text, _ in lines]
        elif name == "tbl":
            rows = [row for row in shape if local_name(row) == "tr"]
            blocks.append(
                md.table(
                    [
                        [" ".join(t for t, _ in _lines(c)) for c in row if local_name(c) == "tc"]
                        for row in rows
                    ]
                )
            )
    return [md.heading(title or f"Slide {number}", 2), *blocks] if title or any(blocks) else []


def _notes(root: XmlElement) -> list[str]:
    found = []
    for shape in root.iter():
        if local_name(shape) != "sp":
            continue
        kinds = {attribute(e, "type") or "body" for e in shape.iter() if local_name(e) == "ph"}
        if "body" in kinds:
            found += [md.paragraph(text) for text, _ in _lines(shape)]
    return found


def _lines(parent: XmlElement) -> list[tuple[str, int]]:
    """The paragraphs of a shape with their depth in its list."""
    found = []
    for element in parent.iter():
        if local_name(element) != "p":
            continue
        parts, depth = [], 0
        for child in element.iter():
            name = local_name(child)
            if name == "t":
                parts.append(child.text or "")
            elif name == "br":
                parts.append(" ")
            elif name == "pPr":
                level = attribute(child, "lvl") or "0"
                depth = int(level) if level.isdigit() else 0
        text = "".join(parts).strip()
        if text:
            found.append((text, min(depth, 8)))
    return found
