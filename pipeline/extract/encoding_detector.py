"""Guess the encoding of a text that is neither marked nor UTF-8.

Each candidate decodes a sample of the places where bytes beyond ASCII stand, wherever in the file
that is. What comes out is rated by
how odd it looks: characters that do not exist, scripts mixed within a word, capitals inside words,
rare characters. The least odd wins.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable
from functools import cache

import numpy as np
from charset_normalizer import from_bytes

_WINDOWS = 96
_WINDOW_BYTES = 192
_LOOK_BACK = 65_536  # bytes, for a place where a character begins
_RATED = 3_000  # characters
_MULTI_BYTE = ("cp949", "gb18030", "cp932", "euc_jp", "big5")
_SINGLE_BYTE = ("cp1252", "cp1251", "koi8_r", "cp866", "cp1253", "cp1255", "cp1256", "cp874")
_IMPOSSIBLE, _MIXED, _ODD, _RARE, _UNUSUAL, _CAPITAL = 10.0, 4.0, 2.0, 1.5, 0.6, 0.2

_SCRIPTS = (
    ("latin", 0x00C0, 0x024F),
    ("greek", 0x0370, 0x03FF),
    ("cyrillic", 0x0400, 0x052F),
    ("hebrew", 0x05D0, 0x05EA),
    ("arabic", 0x0620, 0x06D3),
    ("thai", 0x0E01, 0x0E5B),
    ("kana", 0x3041, 0x30FE),
    ("han", 0x4E00, 0x9FFF),
    ("hangul", 0xAC00, 0xD7A3),
)
_FREQUENT = {
    "latin": "éèàäöüßçñáíóúêôâîïåøæëœãõìòùª",
    "greek": "αοιετσνηυρπςίόάέή",
    "cyrillic": "оеаинтсрвл",
    "hebrew": "יוהלאתרמבשנ",
    "arabic": "اليمونترب",
    "thai": "านรอกเงมยลวดทส",
}
_PUNCTUATION = frozenset("“”‘’„–—…«»‹›§·¿¡•°©®™€£¥±²³½×µ\xa0№،؟؛")
_BESIDE_LETTERS = frozenset("“”‘’„‚–—…«»‹›·¿¡•®™´\xa0، ؟؛")
# of Windows-1252, which is by far the most frequent: a single letter says nothing
_WESTERN_BONUS = 0.75
_JAPANESE = frozenset({"cp932", "euc_jp"})


def detect_encoding(content: bytes) -> str:
    """Return the name of the most likely encoding, for `bytes.decode` with `replace`; Windows-1252
    where nothing speaks for another.

    Args:
        content: with at least one byte beyond ASCII.
    """
    windows = _windows(content)
    sample = b"\n".join(window[-2 * _WINDOW_BYTES :] for window in windows)
    candidates = [*_SINGLE_BYTE, *_MULTI_BYTE]
    detected = from_bytes(sample).best()
    if (
        detected is not None
        and detected.encoding not in ("ascii", "utf_8")
        and not detected.encoding.startswith(("utf", "mac", "hp", "cp037"))
    ):
        candidates.append(detected.encoding)
    ratings = {encoding: _oddness(windows, encoding) for encoding in dict.fromkeys(candidates)}
    ratings["cp1252"] -= _WESTERN_BONUS
    return min(ratings, key=lambda encoding: ratings[encoding])


def _windows(content: bytes) -> list[bytes]:
    """Pieces around bytes beyond ASCII, evenly spread over these; each begins where a character
    does.
    """
    high = np.flatnonzero(np.frombuffer(content, np.uint8) >= 0x80)
    picked = high[np.linspace(0, len(high) - 1, min(_WINDOWS, len(high))).astype(int)]
    windows, end = [], 0
    for at in map(int, picked):
        if at < end:
            continue
        low = max(0, at - _LOOK_BACK)
        # no part of a longer character
        found = max(content.rfind(mark, low, at) for mark in (b"\n", b" ", b",", b".", b"\t"))
        if found >= 0 or low == 0:
            end = at + _WINDOW_BYTES
            windows.append(content[found + 1 : end])
    return windows or [content[:_LOOK_BACK]]


def _oddness(windows: list[bytes], encoding: str) -> float:
    """How odd the characters beyond ASCII look on average."""
    total, rated = 0.0, 0
    for n, window in enumerate(windows, 1):
        is_last = n == len(windows)  # elsewhere a character that the window's end tears is left out
        text = codecs.getincrementaldecoder(encoding)("replace").decode(window, is_last)
        cost, count = _rate(text[-2 * _WINDOW_BYTES :], encoding)
        total, rated = total + cost, rated + count
        if rated > _RATED:
            break
    return total / rated if rated else _IMPOSSIBLE


def _rate(text: str, encoding: str) -> tuple[float, int]:
    cost, count, run = 0.0, 0, 0
    is_common = _commonness(encoding)
    for at, char in enumerate(text):
        if char < "\x80":
            run = 0
            continue
        count += 1
        script = _script(char)
        if script is None:
            run = 0
            cost += _cost_of_other(char)
            continue
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        run += 1
        cost += _cost_of_letter(char, script, encoding, is_common)
        cost += _cost_beside(script, char, before, after)
        if script == "latin" and run >= 3:
            cost += _ODD + 1
    return cost, count


def _cost_of_letter(
    char: str, script: str, encoding: str, is_common: Callable[[str], bool]
) -> float:
    if script in ("han", "hangul"):
        return 0.0 if is_common(char) else _RARE
    if script == "kana":
        return 0.0 if encoding in _JAPANESE else _ODD
    return (0.0 if char.lower() in _FREQUENT[script] else _UNUSUAL) + (
        _CAPITAL if char.isupper() else 0.0
    )


def _cost_beside(script: str, char: str, before: str, after: str) -> float:
    """What speaks against a letter at its place in a word."""
    if script in ("han", "hangul", "kana"):
        return _ODD + 1 if _is_ascii_letter(before) and _is_ascii_letter(after) else 0.0
    cost = 0.0
    neighbours = [
        _script(c) or ("latin" if _is_ascii_letter(c) else None) for c in (before, after) if c
    ]
    if any(other not in (None, script) for other in neighbours):
        cost += _MIXED
    if char.isupper() and before.islower():
        cost += _ODD
    if script == "latin" and any(
        c >= "\x80" and c not in _BESIDE_LETTERS and _script(c) is None
        for c in (before, after)
        if c
    ):
        cost += _ODD
    return cost


def _cost_of_other(char: str) -> float:
    if char in _PUNCTUATION or "\u3000" <= char <= "\u303f" or "\uff01" <= char <= "\uff5e":
        return _UNUSUAL
    category = unicodedata.category(char)
    if char == "\ufffd" or category in ("Cn", "Co", "Cc"):
        return _IMPOSSIBLE
    return 0.0 if category[0] == "M" else _ODD


def _is_ascii_letter(char: str) -> bool:
    return char.isascii() and char.isalpha()


@cache
def _script(char: str) -> str | None:
    code = ord(char)
    for name, first, last in _SCRIPTS:
        if first <= code <= last:
            return None if char in "×÷" else name
    return None


def _commonness(encoding: str) -> Callable[[str], bool]:
    """Tells the characters that the encoding's own standard counts as common."""
    if encoding in _JAPANESE:
        return lambda char: _lead(char, "cp932") <= 0x97
    if encoding == "big5":
        return lambda char: 0xA4 <= _lead(char, "big5") <= 0xC6
    if encoding == "cp949":
        return lambda char: 0xB0 <= _lead(char, "euc_kr") <= 0xC8
    return lambda char: 0xB0 <= _lead(char, "gb2312") <= 0xD7


@cache
def _lead(char: str, encoding: str) -> int:
    """The first byte of a character, 0xFF where the encoding has none of it."""
    try:
        return char.encode(encoding)[0]
    except UnicodeEncodeError:
        return 0xFF


ISO_2022_ESCAPE = re.compile(rb"\x1b\$(?:[@B]|\([DQ]|\)C)")
"""Begins a run of characters in ISO-2022, whose bytes are all ASCII."""
