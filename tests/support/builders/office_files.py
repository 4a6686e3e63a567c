"""Small documents in the formats of office programs, written part by part."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "meta", "manifest", "drawing")
)


def archive(parts: Mapping[str, str | bytes], comment: bytes = b"") -> bytes:
    """A ZIP archive; a comment changes its bytes and nothing else."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
        file.comment = comment
    return made.getvalue()


def core(title: str = "", author: str = "", modified: str = "2026-01-01T00:00:00Z") -> str:
    """The properties of an Office document."""
    return (
        '<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:t="t">'
        f"<dc:title>{escape(title)}</dc:title><dc:creator>{escape(author)}</dc:creator>"
        f"<t:modified>{modified}</t:modified></cp:coreProperties>"
    )


def _relationships(found: Sequence[str]) -> str:
    return f"<Relationships>{''.join(found)}</Relationships>"


def docx(*paragraphs: str | tuple[str, str] | Sequence[Sequence[str]], saved: str = "x") -> bytes:
    """A Word document of paragraphs; (style, text) or rows of a table are allowed too."""
    body = []
    for each in paragraphs:
        if isinstance(each, str):
            body.append(f"<w:p><w:r><w:t>{escape(each)}</w:t></w:r></w:p>")
        elif isinstance(each, tuple):
            style, text = each
            marks = (
                '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'
                if style == "list"
                else f'<w:pStyle w:val="{style}"/>'
            )
            body.append(f"<w:p><w:pPr>{marks}</w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>")
        else:
            rows = "".join(
                "<w:tr>"
                + "".join(f"<w:tc><w:p><w:r><w:t>{escape(c)}</w:t></w:r></w:p></w:tc>" for c in row)
                + "</w:tr>"
                for row in each
            )
            body.append(f"<w:tbl>{rows}</w:tbl>")
    styles = (
        f'<w:styles {_W}><w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="H2"><w:name w:val="heading 2"/></w:style></w:styles>'
    )
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<w:document {_W}><w:body>{''.join(body)}</w:body></w:document>",
            "word/styles.xml": styles,
            "docProps/core.xml": core("A report", "Ann", f"2026-{saved}"),
        }
    )


def pptx(*slides: tuple[str, Sequence[str]]) -> bytes:
    """A presentation of slides with a title and points each."""
    parts: dict[str, str] = {}
    ids, relations = [], []
    for n, (title, points) in enumerate(slides, 1):
        lines = "".join(f"<a:p><a:r><a:t>{escape(p)}</a:t></a:r></a:p>" for p in points)
        parts[f"ppt/slides/slide{n}.xml"] = (
            f"<p:sld {_P} {_A}><p:cSld><p:spTree>"
            f'<p:sp><p:nvPr><p:ph type="title"/></p:nvPr><p:txBody><a:p><a:r><a:t>{escape(title)}'
            "</a:t></a:r></a:p></p:txBody></p:sp>"
            f"<p:sp><p:nvPr><p:ph/></p:nvPr><p:txBody>{lines}</p:txBody></p:sp>"
            '<p:sp><p:nvPr><p:ph type="sldNum"/></p:nvPr><p:txBody><a:p><a:r><a:t>99</a:t></a:r>'
            "</a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
        )
        ids.append(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>')
        relations.append(f'<Relationship Id="rId{n}" Target="slides/slide{n}.xml"/>')
    return archive(
        {
            "ppt/presentation.xml": f"<p:presentation {_P} {_R}><p:sldIdLst>{''.join(ids)}"
            "</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": "<Relationships>"
            + "".join(relations)
            + "</Relationships>",
            **parts,
        }
    )


def xlsx(sheets: Mapping[str, Sequence[Sequence[str]]]) -> bytes:
    """A workbook with shared strings."""
    strings = list(dict.fromkeys(cell for rows in sheets.values() for row in rows for cell in row))
    parts, names, relations = {}, [], []
    for n, (name, rows) in enumerate(sheets.items(), 1):
        cells = "".join(
            "<row>"
            + "".join(
                f'<c r="{chr(65 + c)}{r}" t="s"><v>{strings.index(cell)}</v></c>'
                for c, cell in enumerate(row)
            )
            + "</row>"
            for r, row in enumerate(rows, 1)
        )
        parts[f"xl/worksheets/sheet{n}.xml"] = (
            f"<worksheet {_S}><sheetData>{cells}</sheetData></worksheet>"
        )
        names.append(f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}"/>')
        relations.append(f'<Relationship Id="rId{n}" Target="worksheets/sheet{n}.xml"/>')
    items = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    return archive(
        {
            "xl/workbook.xml": f"<workbook {_S} {_R}><sheets>{''.join(names)}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": "<Relationships>"
            + "".join(relations)
            + "</Relationships>",
            "xl/sharedStrings.xml": f"<sst {_S}>{items}</sst>",
            **parts,
        }
    )


def odt(body: str, *, kind: str = "text") -> bytes:
    """An OpenDocument file of a body in its XML."""
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_ODF}><office:body><office:{kind}>{body}"
            f"</office:{kind}></office:body></office:document-content>",
            "meta.xml": f'<office:document-meta {_ODF} xmlns:dc="d"><office:meta>'
            "<dc:title>An open title</dc:title></office:meta></office:document-meta>",
        }
    )


def epub(*chapters: str) -> bytes:
    """A book of chapters in HTML."""
    items = "".join(f'<item id="c{n}" href="c{n}.xhtml"/>' for n in range(len(chapters)))
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="O/p.opf"/>'
            "</rootfiles></container>",
            "O/p.opf": '<package xmlns:dc="d"><metadata><dc:title>A book</dc:title></metadata>'
            f"<manifest>{items}</manifest><spine>{order}</spine></package>",
            **{f"O/c{n}.xhtml": chapter for n, chapter in enumerate(chapters)},
        }
    )


def pdf(*pages: Sequence[str], title: str = "", saved: str = "1", picture: bool = False) -> bytes:
    """A PDF of pages of lines, in Helvetica."""
    objects: list[bytes] = []

    def add(content: bytes) -> int:
        objects.append(content)
        return len(objects)

    font = add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    root = add(b"")
    tree = add(b"")
    kids = []
    for lines in pages:
        shown = b"".join(
            b"("
            + line.encode("cp1252")
            .replace(b"\\", b"\\\\")
            .replace(b"(", b"\\(")
            .replace(b")", b"\\)")
            + b") Tj T* "
            for line in lines
        )
        stream = zlib.compress(
            b"BT /F1 11 Tf 14 TL 50 780 Td " + (b"" if picture else shown) + b"ET"
        )
        body = add(
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(stream)
            + stream
            + b"\nendstream"
        )
        kids.append(
            add(
                b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
                b"/Resources << /Font << /F1 %d 0 R >> >> >>" % (tree, body, font)
            )
        )
    objects[root - 1] = b"<< /Type /Catalog /Pages %d 0 R >>" % tree
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[tree - 1] = b"<< /Type /Pages /Kids [" + listed + b"] /Count %d >>" % len(kids)
    info = add(f"<< /Title ({title}) /ModDate (D:2026010{saved}) /Author (Ann) >>".encode())
    made, places = bytearray(b"%PDF-1.7\n"), []
    for n, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n" % n + content + b"\nendobj\n"
    table = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer << /Size %d /Root %d 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        root,
        info,
        table,
    )
    return bytes(made)


def ipynb(*cells: tuple[str, str]) -> bytes:
    """A notebook of cells: kind and source."""
    return json.dumps(
        {
            "cells": [
                {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": []}
                for kind, source in cells
            ],
            "metadata": {"language_info": {"name": "python"}},
        }
    ).encode()
