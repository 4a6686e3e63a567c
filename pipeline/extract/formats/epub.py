"""EPUB: the chapters in reading order."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.formats.archive import Archive, local_name, open_archive
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.format_errors import CorruptFileError, EncryptedFileError
from livedex.pipeline.extract.formats.html import read_html
from livedex.pipeline.extract.formats.office_properties import read_properties


def read_epub(content: bytes) -> ConvertedDocument:
    """Read a book.

    Raises:
        NoTextError: `encrypted`, `corrupt` or `too_large`.
        CorruptFileError: the file is damaged.
        EncryptedFileError: the file needs a password.
    """
    with open_archive(content) as archive:
        package = _package(archive)
        root = archive.read_xml(package)
        if root is None:
            raise CorruptFileError()
        if "META-INF/rights.xml" in archive.names:
            raise EncryptedFileError()
        items = {e.get("id"): e.get("href") for e in root.iter() if local_name(e) == "item"}
        texts = []
        for reference in root.iter():
            if local_name(reference) != "itemref":
                continue
            href = items.get(reference.get("idref"))
            part = posixpath.join(posixpath.dirname(package), unquote(href or "").split("#")[0])
            chapter = archive.read(posixpath.normpath(part))
            try:
                texts.append(read_html(chapter).text if chapter else "")
            except NoTextError:
                continue  # a chapter of pictures
        title, metadata = read_properties(archive, package)
    return ConvertedDocument("\n\n".join(filter(None, texts)), "markdown", title, metadata)


def _package(archive: Archive) -> str:
    root = archive.read_xml("META-INF/container.xml")
    for element in root.iter() if root is not None else ():
        if local_name(element) == "rootfile" and element.get("full-path"):
            return str(element.get("full-path"))
    raise CorruptFileError()
