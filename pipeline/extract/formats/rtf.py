"""RTF: its text, without fonts, pictures and other groups that are not text.

Source: Microsoft, "Rich Text Format (RTF) Specification", version 1.9.1.
"""

from __future__ import annotations

import codecs
import re

from livedex.pipeline.extract.formats import markdown_writer as md
from livedex.pipeline.extract.formats.converted_document import ConvertedDocument

_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_DESTINATIONS = frozenset(
    b"fonttbl colortbl stylesheet info pict object header footer headerl headerr footerl footerr "
    b"themedata colorschememapping datastore listtable listoverridetable rsidtbl generator "
    b"xmlnstbl latentstyles fldinst filetbl revtbl mmathPr ftnsep aftnsep".split()
)
_BREAKS = {b"par": "\n\n", b"sect": "\n\n", b"page": "\n\n", b"line": "\n", b"row": "\n\n"}
_CHARACTERS = {
    b"tab": " ",
    b"cell": " | ",
    b"emdash": "—",
    b"endash": "–",
    b"bullet": "•",
    b"lquote": "‘",
    b"rquote": "’",
    b"ldblquote": "“",
    b"rdblquote": "”",
}


def read_rtf(content: bytes) -> ConvertedDocument:
    """Read a document."""
    parts: list[str] = []
    stack: list[tuple[bool, int]] = []
    skipped, fallback, pending = False, 1, 0
    encoding = "cp1252"
    for match in _TOKEN.finditer(content):
        word, number, hexadecimal, symbol, brace, text = match.groups()
        if brace == b"{":
            stack.append((skipped, fallback))
        elif brace == b"}":
            skipped, fallback = stack.pop() if stack else (False, 1)
            pending = 0
        elif symbol == b"*":
            skipped = True
        elif word == b"ansicpg":
            encoding = _codec(number)
        elif word == b"uc":
            fallback = int(number or 1)
        elif word in _DESTINATIONS:
            skipped = True
        elif skipped:
            continue
        elif word == b"u" and number:
            code = int(number) % 65_536
            parts.append(chr(code))
            pending = fallback
        elif word is not None:
            parts.append(_BREAKS.get(word, "") or _CHARACTERS.get(word, ""))
        elif hexadecimal is not None:
            if pending:
                pending -= 1
            else:
                parts.append(bytes([int(hexadecimal, 16)]).decode(encoding, "replace"))
        elif symbol is not None:
            parts.append(
                {b"~": " ", b"_": "-", b"\n": "\n\n", b"\r": "\n\n"}.get(symbol)
                or (symbol.decode("latin-1") if symbol in b"\\{}" else "")
            )
        elif text is not None:
            shown = text.decode(encoding, "replace")
            parts.append(shown[pending:])
            pending = max(0, pending - len(shown))
    joined = "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    blocks = [md.paragraph(block) for block in joined.split("\n\n")]
    return ConvertedDocument(md.join_blocks(blocks), "markdown")


def _codec(number: bytes | None) -> str:
    name = f"cp{int(number or 1252)}"
    try:
        return codecs.lookup("utf-8" if name == "cp65001" else name).name
    except LookupError:
        return "cp1252"
