"""ZIP archives and XML from strangers: bounded, without entities, without network."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from lxml import etree

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.formats.format_errors import CorruptFileError, EncryptedFileError

MAX_UNPACKED_BYTES = 256 * 1024 * 1024  # of the parts of one document together
MAX_PARTS = 20_000
XmlElement: TypeAlias = Any  # lxml has no types


class Archive:
    """The parts of a ZIP archive; reading more than the limit raises NoTextError.

    Args:
        archive: open.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._left = MAX_UNPACKED_BYTES
        self.names = archive.namelist()

    def read(self, name: str) -> bytes:
        """Return a part; empty where there is none.

        Raises:
            NoTextError: no text can be read; the error says why.
        """
        if name not in self._archive.NameToInfo:
            return b""
        with self._archive.open(name) as part:
            content = part.read(self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise NoTextError(
                "too_large",
                f"Unpacked, the document has more than {MAX_UNPACKED_BYTES >> 20} MB: split it.",
            )
        return content

    def read_xml(self, name: str) -> XmlElement | None:
        """Return the root of an XML part; None where there is none."""
        content = self.read(name)
        return parse_xml(content) if content.strip() else None


@contextmanager
def open_archive(content: bytes) -> Iterator[Archive]:
    """Open an archive.

    Raises:
        NoTextError: `corrupt`, `encrypted` or `too_large`.
        CorruptFileError: the file is damaged.
        EncryptedFileError: the file needs a password.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if len(archive.infolist()) > MAX_PARTS:
                raise NoTextError("too_large", f"The document has more than {MAX_PARTS} parts.")
            yield Archive(archive)
    except RuntimeError as exc:
        if "password" in str(exc) or "encrypted" in str(exc):
            raise EncryptedFileError() from exc
        raise CorruptFileError() from exc
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        NotImplementedError,
        ValueError,
    ) as exc:
        raise CorruptFileError() from exc
    except etree.XMLSyntaxError as exc:
        raise CorruptFileError() from exc


def parse_xml(content: bytes) -> XmlElement:
    """Parse XML without entities, document types and network.

    Raises:
        CorruptFileError: the file is damaged.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True
    )
    root = etree.fromstring(content, parser)
    if root is None:
        raise CorruptFileError()
    return root


def local_name(element: XmlElement) -> str:
    """Return the name of an element without its namespace; empty for comments."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: XmlElement, name: str) -> str | None:
    """Return an attribute by its name without namespace."""
    for key, value in element.attrib.items():
        if str(key).rpartition("}")[2] == name:
            return str(value)
    return None
