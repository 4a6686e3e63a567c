"""From bytes to text: byte-order marks first, then strict UTF-8, then a guess; bytes that are no text at all are told apart."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from pipeline.errors import NoTextError

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
_MAGIC = (
    (b"%PDF-", "a PDF"), (b"PK\x03\x04", "a ZIP archive or an office document"), (b"\x89PNG", "a picture"), (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"), (b"\x7fELF", "a program"), (b"MZ\x90\x00", "a program"), (b"\x1f\x8b", "a compressed file"),
    (b"BZh", "a compressed file"), (b"\xfd7zXZ", "a compressed file"), (b"\xd0\xcf\x11\xe0", "an old office document"), (b"SQLite format 3\x00", "a database"),
    (b"ID3", "a sound"), (b"OggS", "a sound"), (b"RIFF", "a sound or film"),
)  # fmt: skip
_CONTROLS = bytes(c for c in range(32) if c not in (7, 8, 9, 10, 11, 12, 13, 27))
_SAMPLE = 65_536
_MOST_CONTROLS = 0.05  # of a text, at most
_MOST_BROKEN = 0.1  # of the bytes beyond ASCII, for a text that is UTF-8 all the same
_MOST_WESTERN = 0.5  # of the characters of a Western text beyond ASCII; other scripts have nearly all
_ODD_LATIN = re.compile("[\x80-\x9f\xa4\xa6\xa8\xac\xaf\xb8\xbc-\xbe\xd7\xf7]")


def decode(content: bytes) -> str:
    """The text of a file, without a byte-order mark.

    Raises:
        NoTextError: `unsupported`: the bytes are of a format that is not text.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_other(content)
    _refuse_binary(content)
    return text


def _decode_other(content: bytes) -> str:
    if wide := _wide_encoding(content):
        return content.decode(wide, "replace")
    _refuse_binary(content)
    replaced = content.decode("utf-8", "replace")
    beyond = sum(map(content[:_SAMPLE].count, range(128, 256)))
    if replaced[:_SAMPLE].count("\ufffd") <= max(3, beyond * _MOST_BROKEN) and _has_good_sequences(content):
        return replaced
    return _guess(content)


def _has_good_sequences(content: bytes) -> bool:
    """Whether there is any sequence of UTF-8 beyond ASCII, whole or torn."""
    return re.search(rb"[\xc3-\xf4][\x80-\xbf]+", content[:_SAMPLE]) is not None


def _guess(content: bytes) -> str:
    """The most likely single-byte or multi-byte encoding; Windows-1252 where letters of Western Europe make sense of it."""
    western = content.decode("cp1252", "replace")
    beyond = [c for c in western[:_SAMPLE] if c > "\x7f"]
    odd = sum(1 for c in beyond if c == "\ufffd" or _ODD_LATIN.match(c))
    letters = sum(1 for c in beyond if c.isalpha() or c in "“”‘’„–—…€«»°§·¿¡")
    share = len(beyond) / max(1, min(len(western), _SAMPLE))
    if not odd and letters == len(beyond) and share <= _MOST_WESTERN:
        return western
    best = from_bytes(content[:_SAMPLE]).best()
    if best is None or best.encoding in ("ascii", "utf_8"):
        return western
    return content.decode(best.encoding, "replace")


def _wide_encoding(content: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of Western text is NUL."""
    sample = content[:4096]
    if len(sample) < 4 or len(content) % 2:
        return None
    even, odd = sample[::2].count(0) / len(sample[::2]), sample[1::2].count(0) / len(sample[1::2])
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.05 else None


def _refuse_binary(content: bytes) -> None:
    for magic, kind in _MAGIC:
        if content.startswith(magic):
            raise NoTextError("unsupported", f"The file is {kind}, which cannot be read yet: convert it to text or Markdown.")
    sample = content[:_SAMPLE]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls > max(4, len(sample) * _MOST_CONTROLS):
        raise NoTextError("unsupported", "The file holds binary data and no text: convert it to text or Markdown, or exclude it.")
