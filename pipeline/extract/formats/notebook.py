"""Jupyter notebooks: text and code cells, without outputs."""

from __future__ import annotations

import json
from typing import Any

from livedex.pipeline.extract.formats.converted_document import ConvertedDocument
from livedex.pipeline.extract.formats.format_errors import CorruptFileError
from livedex.pipeline.extract.text_decoder import decode_text


def read_ipynb(content: bytes) -> ConvertedDocument:
    """Read a notebook.

    Raises:
        NoTextError: `corrupt`: it is no notebook.
        CorruptFileError: the file is damaged.
    """
    try:
        found: Any = json.loads(decode_text(content))
        cells = found["cells"] if "cells" in found else found["worksheets"][0]["cells"]
        metadata = found.get("metadata") or {}
        language = (metadata.get("language_info") or metadata.get("kernelspec") or {}).get(
            "name", ""
        )
        blocks = [_cell(cell, str(language)) for cell in cells]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as exc:
        raise CorruptFileError() from exc
    return ConvertedDocument("\n\n".join(filter(None, blocks)), "markdown")


def _cell(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = ("".join(source) if isinstance(source, list) else str(source)).strip("\n")
    if not text.strip():
        return ""
    if cell.get("cell_type") == "code":
        fence = "```" if "```" not in text else "~~~~"
        return f"{fence}{language}\n{text}\n{fence}"
    return text
