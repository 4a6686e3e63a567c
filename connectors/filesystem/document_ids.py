"""What a file's document is called: `SOURCE/relative/path`, always valid Unicode, never the same
for two files.

A name that is UTF-8 stands in the id as it is. A byte that is not is written `␛` (U+241B) and two
hexadecimal digits: `bad\\xff.md` becomes `bad␛FF.md`. A file really called `bad␛FF.md` has its `␛`
written as its own three bytes, `bad␛E2␛90␛9BFF.md`, and so the two never meet.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes

from livedex.pipeline.model import DocumentId

MAX_ID_BYTES = 2_000
"""Ids are keys of indexes, and a key of PostgreSQL's B-tree has 2,704 bytes at most."""

_MARK = "\u241b"
_LOOKS_ESCAPED = re.compile(f"{_MARK}(?=[89A-F][0-9A-F])")
_ESCAPED = re.compile(f"{_MARK}([89A-F][0-9A-F])")
_SURROGATE = re.compile("[\udc80-\udcff]")
_MARK_ESCAPED = "".join(f"{_MARK}{byte:02X}" for byte in _MARK.encode())


def path_to_text(path: bytes) -> str:
    """A relative path as valid Unicode, unique to it.

    Args:
        path: raw bytes as the disk has them, without NUL.
    """
    text = path.decode("utf-8", "surrogateescape")
    if _MARK in text:
        text = _LOOKS_ESCAPED.sub(_MARK_ESCAPED, text)
    return (
        text
        if text.isascii()
        else _SURROGATE.sub(lambda found: f"{_MARK}{ord(found[0]) - 0xDC00:02X}", text)
    )


def text_to_path(text: str) -> bytes:
    """The path of which `readable_path` made this text."""
    return _ESCAPED.sub(lambda found: chr(0xDC00 + int(found[1], 16)), text).encode(
        "utf-8", "surrogateescape"
    )


def document_id(source: str, path: bytes) -> DocumentId:
    """The id of a file's document.

    Args:
        source: the source's name.
        path: relative to its folder, raw bytes.
    """
    return DocumentId(f"{source}/{path_to_text(path)}")


def path_from_document_id(source: str, document: DocumentId) -> bytes | None:
    """The relative path of a document of this source, or None when the id is not of the source's
    making.
    """
    head, _, rest = document.partition("/")
    if head != source or not rest:
        return None
    path = text_to_path(rest)
    return path if document_id(source, path) == document else None


def is_too_long(document: DocumentId) -> bool:
    """Whether no document can be called so."""
    return len(document) > MAX_ID_BYTES // 4 and len(document.encode()) > MAX_ID_BYTES


def file_uri(root: bytes, path: bytes) -> str:
    """`file://` and the escaped absolute path; `root` is absolute."""
    return "file://" + quote_from_bytes(root.rstrip(b"/") + b"/" + path, safe="/")
