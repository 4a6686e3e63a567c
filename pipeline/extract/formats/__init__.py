"""Documents that are not plain text: each format becomes Markdown, or plain text with pages.

    bytes ─► detection by content, then name ─► reader of the format ─► ConvertedDocument

Invariants: a reader gets bytes and returns text, without files, network or scripts; an archive is
never unpacked beyond `MAX_UNPACKED_BYTES`; XML entities are never resolved; the text depends on the
content alone, so that a file saved again without a change has the same text.
"""

from livedex.pipeline.extract.formats.converter import convert_document
from livedex.pipeline.extract.formats.detection import (
    DOCUMENT_EXTENSIONS,
    needs_conversion,
)

__all__ = ["DOCUMENT_EXTENSIONS", "convert_document", "needs_conversion"]
