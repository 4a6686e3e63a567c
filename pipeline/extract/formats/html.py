"""HTML: the main content as Markdown, without navigation, scripts and styles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

from lxml import etree
from lxml import html as lxml_html

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.formats import markdown_writer as md
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.text_decoder import decode_text

MAX_DEPTH = 200
_DROPPED = frozenset(
    "script style noscript template svg math iframe object embed canvas audio video head nav aside "
    "button select option input textarea form dialog menu".split()
)
_FURNITURE_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "dialog", "alert"})
_BLOCKS = frozenset(
    "p div section article main header footer blockquote address figure figcaption details summary "
    "center fieldset dd dt dl body html".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*+=\s*+[\"']?+\s*+([A-Za-z0-9_:.-]{2,40})", re.I
)
_XML_ENCODING = re.compile(rb"^<\?xml[^>]{0,100}encoding\s*=\s*[\"']([A-Za-z0-9_.-]{2,40})")
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_SCRIPT = re.compile(r"<(script|style|head)\b[^>]*>.*?(?:</\1\s*+>|\Z)", re.I | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_SPACE = re.compile(r"\s+")
_LINE_BREAK = "\ue000"  # a private character for <br>, until white space is collapsed


def read_html(content: bytes, charset: str | None = None) -> ConvertedDocument:
    """Read a page.

    Args:
        content: the bytes of the page.
        charset: as a header says it; it wins over what the page says.

    Raises:
        NoTextError: `empty`: the page has no text.
    """
    source = decode_html(content, charset)
    root, title, metadata, text = parse_html(source), None, dict[str, Any](), ""
    if root is not None:
        title, metadata = _head(root)
        text = md.join_blocks(list(_blocks(_main_content(root), 0)))
        if not text.strip():
            text = md.join_blocks(list(_blocks(root, 0)))
    if not text.strip():  # the parser gives up at elements that are nested too deeply
        text = _without_tags(source)
    if not text.strip():
        raise NoTextError("empty", "The page holds no text: write some, or leave it out.")
    return ConvertedDocument(text, "markdown", title, metadata)


def _without_tags(source: str) -> str:
    lines = unescape(_TAG.sub(" ", _SCRIPT.sub(" ", source))).splitlines()
    return md.join_blocks([md.paragraph(line) for line in lines])


def decode_html(content: bytes, charset: str | None = None) -> str:
    """Decode a page by its byte-order mark, the given charset, or what the page itself says."""
    if not content.startswith(_BOMS):
        head = content[:4_096]
        declared = _META_CHARSET.search(head) or _XML_ENCODING.search(head)
        for name in (charset, declared[1].decode("ascii") if declared else None):
            if name is None:
                continue
            try:
                # WHATWG, "Encoding": these labels mean windows-1252
                known = {"iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252"}
                return content.decode(known.get(name.lower(), name), "strict")
            except (LookupError, UnicodeDecodeError):
                continue
    return decode_text(content)


def parse_html(text: str) -> Any:
    """Parse a page; None where it holds nothing."""
    cleaned = re.sub(r"^\s*<\?xml[^>]*\?>", "", text.replace("\x00", ""))
    try:
        return lxml_html.document_fromstring(
            cleaned, parser=lxml_html.HTMLParser(recover=True, no_network=True, huge_tree=True)
        )
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None


def _head(root: Any) -> tuple[str | None, dict[str, Any]]:
    title, found = None, dict[str, Any]()
    for element in root.iter("title"):
        title = " ".join((element.text or "").split())[:300] or None
        break
    for element in root.iter("meta"):
        name = (element.get("name") or "").lower()
        value = " ".join((element.get("content") or "").split())
        if value and name in ("author", "description", "keywords"):
            found.setdefault(name, value[:1_000])
    language = root.get("lang")
    if language:
        found["language"] = language[:40]
    return title, found


def _main_content(root: Any) -> Any:
    for path in ("//main", "//*[@role='main']", "//article"):
        found = root.xpath(path)
        if len(found) == 1:
            return found[0]
    return root


def _is_furniture(element: Any) -> bool:
    if element.tag in _DROPPED or element.get("hidden") is not None:
        return True
    if element.get("aria-hidden") == "true" or element.get("role") in _FURNITURE_ROLES:
        return True
    inside = any(parent.tag in ("article", "main", "section") for parent in element.iterancestors())
    return element.tag in ("header", "footer") and not inside


def _blocks(element: Any, depth: int, listed: int = -1) -> Iterator[str]:
    """Yield the blocks of an element in order."""
    if depth > MAX_DEPTH:
        yield md.paragraph(_flat(element))
        return
    inline: list[str] = [element.text or ""]

    def flush() -> Iterator[str]:
        text = _SPACE.sub(" ", "".join(inline)).strip()
        inline.clear()
        if text:
            yield md.paragraph(text.replace(_LINE_BREAK, "\n"))

    for child in element:
        if isinstance(child.tag, str) and not _is_furniture(child):
            if child.tag in _HEADINGS:
                yield from flush()
                yield md.heading(_flat(child), _HEADINGS[child.tag])
            elif child.tag in ("ul", "ol"):
                yield from flush()
                yield from _list(child, depth + 1, listed + 1)
            elif child.tag == "table":
                yield from flush()
                yield from _table(child, depth + 1)
            elif child.tag in ("pre", "listing", "xmp"):
                yield from flush()
                code = "".join(child.itertext()).strip("\n")
                fence = "```" if "```" not in code else "~~~~"
                yield f"{fence}\n{code}\n{fence}" if code.strip() else ""
            elif child.tag == "br":
                inline.append(_LINE_BREAK)
            elif child.tag == "hr":
                yield from flush()
            elif child.tag in _BLOCKS or _holds_blocks(child):
                yield from flush()
                yield from _blocks(child, depth + 1, listed)
            else:
                inline.append(_flat(child))
        inline.append(child.tail or "")
    yield from flush()


def _holds_blocks(element: Any) -> bool:
    return any(
        isinstance(child.tag, str)
        and (
            child.tag in _BLOCKS
            or child.tag in _HEADINGS
            or child.tag in ("ul", "ol", "table", "pre")
        )
        for child in element.iterdescendants()
    )


def _flat(element: Any) -> str:
    if element.tag == "img":
        return str(element.get("alt") or "")
    parts = [element.text or ""]
    stack = [iter(element)]
    tails: list[str] = []
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
            if tails:
                parts.append(tails.pop())
            continue
        if not isinstance(child.tag, str) or child.tag in _DROPPED:
            parts.append(child.tail or "")
            continue
        parts.append(str(child.get("alt") or "") if child.tag == "img" else child.text or "")
        tails.append(child.tail or "")
        stack.append(iter(child))
    return _SPACE.sub(" ", "".join(parts))


def _list(element: Any, depth: int, listed: int) -> Iterator[str]:
    for item in element:
        if not isinstance(item.tag, str) or _is_furniture(item):
            continue
        if item.tag in ("ul", "ol"):
            yield from _list(item, depth + 1, listed + 1)
            continue
        first = True
        for block in _blocks(item, depth + 1, listed):
            if not block:
                continue
            if block.lstrip().startswith(("- ", "|", "```")):
                yield block
            elif first:
                yield md.list_item(block, min(listed, 8))
                first = False
            else:
                yield md.list_item(block, min(listed + 1, 8))


def _table(element: Any, depth: int) -> Iterator[str]:
    rows = [
        row
        for row in element.iter("tr")
        if next((p for p in row.iterancestors() if p.tag == "table"), None) is element
    ]
    cells = [[cell for cell in row if cell.tag in ("td", "th")] for row in rows]
    nested = any(cell.find(".//table") is not None for row in cells for cell in row)
    if nested or max(map(len, cells), default=0) < 2:  # a table for layout
        for row in cells:
            for cell in row:
                yield from _blocks(cell, depth + 1)
        return
    captions = [_flat(caption) for caption in element.iter("caption")]
    yield from (md.paragraph(caption) for caption in captions)
    from livedex.pipeline.extract.formats.spreadsheet import tables

    yield from tables([[_flat(cell) for cell in row] for row in cells])
