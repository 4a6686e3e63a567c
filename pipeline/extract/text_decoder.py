"""From bytes to text: byte-order marks first, then strict UTF-8, then a guess; bytes that are no
text at all are told apart.

Every decision looks at the whole file, or at places all over it: what decides may stand at the end
of a long ASCII log.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from contextlib import suppress

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract.encoding_detector import ISO_2022_ESCAPE, detect_encoding

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a program"),
    (b"\x1f\x8b", "a compressed file"),
    (b"\xfd7zXZ", "a compressed file"),
    (b"\xd0\xcf\x11\xe0", "an old office document"),
    (b"SQLite format 3\x00", "a database"),
)
_MAGIC_WORDS = (
    (b"GIF8", "a picture"),
    (b"BZh", "a compressed file"),
    (b"ID3", "a sound"),
    (b"OggS", "a sound"),
    (b"RIFF", "a sound or film"),
)
"""A text may begin with these as well; in a file of that kind bytes that no text has follow at
once.
"""
_CONTROLS = bytes(c for c in range(32) if c not in (7, 8, 9, 10, 11, 12, 13, 27))
_HIGH = bytes(range(128, 256))
_MOST_CONTROLS = 0.05  # of a text, at most
# characters beyond ASCII that are whole, for each that is torn, in a text that is UTF-8 all the
# same
_GOOD_PER_BROKEN = 4
_GOOD_PER_CUT = 20  # the same where lines need not be looked at one by one
# the same in whole lines, for a file that changes its encoding from line to line
_GOOD_IN_LINES = 4
_BROKEN = re.compile("\ufffd+")
_TAIL = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
"""A character of UTF-8 without its end."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""Half of a character beyond U+FFFF as three bytes, as some programs write it (CESU-8): no UTF-8,
and not likely to be anything else.
"""
_PLACES, _PLACE_BYTES = 8, 4096  # where UTF-16 is looked for


def decode_text(content: bytes) -> str:
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
    controls = _controls(content)
    # UTF-16 of letters below U+0080 and of some scripts is valid UTF-8
    if controls and (wide := _wide_encoding(content)):
        return content.decode(wide, "replace")
    _refuse_binary(content, controls)
    return _escaped(content) or text


def _escaped(content: bytes) -> str | None:
    """The text of ISO-2022, whose bytes are all ASCII."""
    if ISO_2022_ESCAPE.search(content):
        for encoding in ("iso2022_jp_ext", "iso2022_kr"):
            with suppress(UnicodeDecodeError):
                return content.decode(encoding)
    return None


def _decode_other(content: bytes) -> str:
    controls = _controls(content)
    if controls and (wide := _wide_encoding(content)):
        return content.decode(wide, "replace")
    _refuse_binary(content, controls)
    if _SURROGATE.search(content):
        with suppress(UnicodeDecodeError):
            return content.decode("utf-8", "surrogatepass")
    replaced = content.decode("utf-8", "replace")
    good = len(replaced) - len(content.translate(None, _HIGH)) - replaced.count("\ufffd")
    ends = (_TAIL.search(content, max(0, len(content) - 3)) is not None) + (
        0x80 <= content[0] < 0xC0
    )
    broken = sum(1 for _ in _BROKEN.finditer(replaced)) - ends
    if (good and good >= _GOOD_PER_CUT * broken) or _is_torn(content):
        return replaced
    lines = _by_lines(content) if good >= _GOOD_IN_LINES else None
    if lines is None and 0 < good >= _GOOD_PER_BROKEN * broken:
        return replaced
    return lines or content.decode(detect_encoding(content), "replace")


def _is_torn(content: bytes) -> bool:
    """Whether the end of the file tears its only character beyond ASCII: not where a letter of
    Western Europe ends a word.
    """
    tail = _TAIL.search(content, max(0, len(content) - 3))
    if tail is None or not content[: tail.start()].isascii():
        return False
    return len(tail[0]) > 1 or tail[0] in b"\xc2\xc3"


def _by_lines(content: bytes) -> str | None:
    """The text of a file whose lines are UTF-8 or in one other encoding, as in logs that several
    programs wrote.
    """
    found: list[str | None] = []
    other: list[bytes] = []
    whole = 0
    for line in content.splitlines(keepends=True):
        try:
            found.append(line.decode("utf-8"))
            whole += not line.isascii()
        except UnicodeDecodeError:
            found.append(None)
            other.append(line)
    if whole < _GOOD_IN_LINES or 4 * whole < len(other):
        return None
    encoding = detect_encoding(b"".join(other))
    rest = iter(other)
    return "".join(
        next(rest).decode(encoding, "replace") if line is None else line for line in found
    )


def _wide_encoding(content: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark, also with a torn end."""
    if b"\0\0" in content and len(content) >= 8:
        for encoding in ("utf-32-le", "utf-32-be"):
            with suppress(UnicodeDecodeError):
                content[: len(content) // 4 * 4].decode(encoding)
                return encoding
    if len(content) < 4:
        return None
    step = max(_PLACE_BYTES, len(content) // _PLACES // 2 * 2)
    samples = [content[at : at + _PLACE_BYTES] for at in range(0, len(content), step)]
    samples = [sample[: len(sample) // 2 * 2] for sample in samples]
    found = {_wide_encoding_of(sample) for sample in samples if len(sample) >= 4}
    return found.pop() if len(found) == 1 else None


def _wide_encoding_of(sample: bytes) -> str | None:
    """Of the two bytes of a letter, the one that names the script is nearly always one of few, or
    the other is evenly spread.
    """
    for encoding, scripts, letters in (
        ("utf-16-le", sample[1::2], sample[::2]),
        ("utf-16-be", sample[::2], sample[1::2]),
    ):
        usual = sum(n for _, n in Counter(scripts).most_common(2))
        if (
            usual > 0.9 * len(scripts)
            and min(scripts) < 0x20
            and len(set(letters)) > len(set(scripts))
            and _is_text(sample, encoding)
        ):
            return encoding
    return next(
        (encoding for encoding in ("utf-16-le", "utf-16-be") if _is_han(sample, encoding)), None
    )


def _is_text(sample: bytes, encoding: str) -> bool:
    text = sample[: len(sample) - 2].decode(encoding, "replace")  # the last letter may be torn
    return sum(c.isprintable() or c.isspace() for c in text) > 0.95 * len(text)


def _is_han(sample: bytes, encoding: str) -> bool:
    """Whether it is a text of Chinese, Japanese or Korean: their characters, with marks or spaces
    of theirs between.
    """
    text = sample.decode(encoding, "replace")
    own = sum(
        "\u3000" <= c <= "\u30ff"
        or "\u4e00" <= c <= "\u9fff"
        or "\uac00" <= c <= "\ud7a3"
        or "\uff00" <= c <= "\uff60"
        for c in text
    )
    marks = sum(c in "。、，．：；！？「」的是の \n" or "\u3041" <= c <= "\u3096" for c in text)
    return (
        own + sum(c < "\x80" and (c.isprintable() or c.isspace()) for c in text) > 0.97 * len(text)
        and own > 0
        and 50 * marks >= len(text)
    )


def _refuse_binary(content: bytes, controls: int) -> None:
    """Refuse what begins like a format that is not text, or has too many control characters.

    Raises:
        NoTextError: no text can be read; the error says why.
    """
    begins_oddly = controls > 0 and _controls(content[:64]) > 0
    for magic, kind in (*_MAGIC, *_MAGIC_WORDS) if begins_oddly else _MAGIC:
        if content.startswith(magic):
            raise NoTextError(
                "unsupported",
                f"The file is {kind}, which cannot be read yet: convert it to text or Markdown.",
            )
    if controls > max(4, len(content) * _MOST_CONTROLS):
        raise NoTextError(
            "unsupported",
            "The file holds binary data and no text: convert it to text or Markdown, or "
            "exclude it.",
        )


def _controls(sample: bytes) -> int:
    return len(sample) - len(sample.translate(None, _CONTROLS))
