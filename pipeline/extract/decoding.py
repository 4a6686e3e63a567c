"""From bytes to text: byte-order marks first, then strict UTF-8, then a guess; bytes that are no text at all are told apart."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from contextlib import suppress

from charset_normalizer import from_bytes

from pipeline.errors import NoTextError

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
_MAGIC = (
    (b"%PDF-", "a PDF"), (b"PK\x03\x04", "a ZIP archive or an office document"), (b"\x89PNG", "a picture"), (b"\xff\xd8\xff", "a picture"),
    (b"\x7fELF", "a program"), (b"MZ\x90\x00", "a program"), (b"\x1f\x8b", "a compressed file"), (b"\xfd7zXZ", "a compressed file"),
    (b"\xd0\xcf\x11\xe0", "an old office document"), (b"SQLite format 3\x00", "a database"),
)  # fmt: skip
_MAGIC_WORDS = (
    (b"GIF8", "a picture"), (b"BZh", "a compressed file"), (b"ID3", "a sound"), (b"OggS", "a sound"), (b"RIFF", "a sound or film"),
)  # fmt: skip
"""A text may begin with these as well; in a file of that kind bytes that no text has follow at once."""
_CONTROLS = bytes(c for c in range(32) if c not in (7, 8, 9, 10, 11, 12, 13, 27))
_SAMPLE = 65_536
_MOST_CONTROLS = 0.05  # of a text, at most
_MOST_BROKEN = 0.1  # of the bytes beyond ASCII, for a text that is UTF-8 all the same
_MOST_WESTERN = 0.5  # of the characters of a Western text beyond ASCII; other scripts have nearly all
_SEQUENCE = re.compile(rb"[\xc3-\xdf][\x80-\xbf]|[\xe0-\xf4][\x80-\xbf]{2}")
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""Half of a character beyond U+FFFF as three bytes, as some programs write it (CESU-8): no UTF-8, and not likely to be anything else."""
_ODD_LATIN = re.compile("[\x80-\x9f\xa4\xa6\xa8\xac\xaf\xb8\xbc-\xbe\xd7\xf7]")


def decode(content: bytes) -> str:
    """The text of a file, without a byte-order mark; surrogates may stand in it, see `cleaning`.

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
    controls = _controls(content[:_SAMPLE])
    if controls and (wide := _wide_encoding(content)):  # UTF-16 of letters below U+0080 and of some scripts is valid UTF-8
        return content.decode(wide, "replace")
    _refuse_binary(content, controls)
    return text


def _decode_other(content: bytes) -> str:
    if wide := _wide_encoding(content):
        return content.decode(wide, "replace")
    _refuse_binary(content, _controls(content[:_SAMPLE]))
    if _SURROGATE.search(content):
        with suppress(UnicodeDecodeError):
            return content.decode("utf-8", "surrogatepass")
    replaced = content.decode("utf-8", "replace")
    beyond = sum(map(content[:_SAMPLE].count, range(128, 256)))
    if replaced[:_SAMPLE].count("\ufffd") <= max(3, beyond * _MOST_BROKEN) and _has_good_sequences(content):
        return replaced
    return _guess(content)


def _has_good_sequences(content: bytes) -> bool:
    """Whether there is a sequence of UTF-8 beyond ASCII that is whole, or torn after its third byte: in other encodings both are rare."""
    return _SEQUENCE.search(content[:_SAMPLE]) is not None


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
    """UTF-16 without a mark: of the two bytes of a letter, the one that names the script is nearly always one of two."""
    sample = content[:4096]
    if len(sample) < 4 or len(content) % 2:
        return None
    for encoding, scripts, letters in (("utf-16-le", sample[1::2], sample[::2]), ("utf-16-be", sample[::2], sample[1::2])):
        usual = sum(n for _, n in Counter(scripts).most_common(2))
        if usual > 0.9 * len(scripts) and min(scripts) < 0x20 and len(set(letters)) > len(set(scripts)) and _is_text(sample, encoding):
            return encoding
    return None


def _is_text(sample: bytes, encoding: str) -> bool:
    text = sample[: len(sample) - 2].decode(encoding, "replace")  # the last letter may be torn
    return sum(c.isprintable() or c.isspace() for c in text) > 0.95 * len(text)


def _refuse_binary(content: bytes, controls: int) -> None:
    """Refuse what begins like a format that is not text, or has too many control characters in its sample."""
    begins_oddly = controls > 0 and _controls(content[:64]) > 0
    for magic, kind in (*_MAGIC, *_MAGIC_WORDS) if begins_oddly else _MAGIC:
        if content.startswith(magic):
            raise NoTextError("unsupported", f"The file is {kind}, which cannot be read yet: convert it to text or Markdown.")
    if controls > max(4, len(content[:_SAMPLE]) * _MOST_CONTROLS):
        raise NoTextError("unsupported", "The file holds binary data and no text: convert it to text or Markdown, or exclude it.")


def _controls(sample: bytes) -> int:
    return len(sample) - len(sample.translate(None, _CONTROLS))
