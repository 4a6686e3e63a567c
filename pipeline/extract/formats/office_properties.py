"""Title, author and language out of the properties of office documents."""

from __future__ import annotations

from typing import Any

from livedex.pipeline.extract.formats.archive import Archive, local_name

_NAMES = {
    "creator": "author",
    "initial-creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "keyword": "keywords",
    "language": "language",
}


def read_properties(
    archive: Archive, part: str = "docProps/core.xml"
) -> tuple[str | None, dict[str, Any]]:
    """Read the title and what else a document says of itself, without dates of saving."""
    root = archive.read_xml(part)
    title, found = None, dict[str, Any]()
    for element in root.iter() if root is not None else ():
        name, text = local_name(element), " ".join((element.text or "").split())
        if not text:
            continue
        if name == "title":
            title = title or text[:300]
        elif name in _NAMES:
            found.setdefault(_NAMES[name], text[:1_000])
    return title, found
