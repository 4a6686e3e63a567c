"""Find what stands in a text and is none: data URIs, long runs of base64 or hexadecimal digits,
paths of drawings, source maps.

It stays in the text, so that places count on, and is left out of the passages.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

Span = tuple[int, int]

MIN_CHARACTERS = 64  # of a data URI's content
_SAMPLE = 512  # characters that decide whether a run is text
_LONG_WORD = 200  # characters
_MANY_PAIRS = 96

_BEFORE = re.compile(
    r"(?:\]\(\s{0,4}<?|\b(?:src|href|srcset)\s{0,4}=\s{0,4}[\"']?|\burl\(\s{0,4}[\"']?|<)\Z",
    re.IGNORECASE,
)
_MOST_BEFORE = 20  # characters
_AFTER = r"[\"'>)]{0,4}"
_BASE64 = r"[A-Za-z0-9+/_-]"
_DATA_URI = re.compile(
    rf"(?:data|DATA|Data):(?:[\w.+-]{{1,60}}/[\w.+-]{{1,100}})?(?:;[\w.=+-]{{1,60}}){{0,8}}"
    rf"(?:;base64,\s{{0,4}}(?:{_BASE64}|=|%[0-9A-Fa-f]{{2}}|\\[nr/])++(?:\s{{1,"
    rf"8}}{_BASE64}{{60,}}+={{0,2}})*+(?:\s{{1,8}}{_BASE64}{{1,100}}={{1,2}}(?![\w=]))?"
    rf"|,(?:[^\s\"'<>)]| (?=[\w:%.-]{{1,40}}(?:=|%)))++){_AFTER}",
)
_TOKEN = re.compile(rf"(?<!{_BASE64}){_BASE64}{{200,}}+={{0,2}}")
_WRAPPED = re.compile(
    r"^[ \t>]{0,16}(?:[A-Za-z0-9+/]{40,100}(?:[ \t\"',+]{0,4}|\\n\"?)\n[ "
    r"\t>\"]{0,16}){3,}+(?:[A-Za-z0-9+/]{1,100}={0,2}(?![^\s\"']))?",
    re.MULTILINE,
)
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{256,}+|[0-9A-F]{256,}+)(?![0-9A-Za-z])")
_HEX_PAIRS = re.compile(
    rf"(?<![0-9A-Za-z])(?:(?:0x|\\x)?[0-9A-Fa-f]{{2}}(?:[,:;\s]{{1,4}}|(?"
    rf"=\\x))){{{_MANY_PAIRS},}}+(?:(?:0x|\\x)?[0-9A-Fa-f]{{2}}(?![0-9A-Za-z]))?"
)
_HEX_WORD = re.compile(r"(?:0x|\\x)?(?:[0-9A-Fa-f]{2}){1,4}[,:;]?")
_WORD_STEP, _LINE_STEP = 7, 3
_HEX_BEGINS = frozenset(" \t0123456789abcdefABCDEF\\\"'{")
_PAIR = r" {0,2}+[0-9A-Fa-f]{2}(?:[0-9A-Fa-f](?![0-9A-Fa-f]))?+"
_HEX_DUMP = re.compile(
    rf"^(?:[0-9A-Fa-f]{{6,16}}[: ] ?(?=(?:{_PAIR}){{4}})(?: "
    rf"{{0,2}}+[0-9A-Fa-f]{{2,8}}+){{1,16}}+[^\n]{{0,40}}(?:\n|\Z)){{6,}}+",
    re.MULTILINE,
)
"""Lines of four pairs at least, in words of any length: each line is read in one way only, or a
text of such words takes for ever.
"""
_UUENCODED = re.compile(
    r"^(?:M[\x20-\x60]{60}\n){3,}+(?:[\x21-\x60][\x20-\x60]{1,60}\n)?", re.MULTILINE
)
_DRAWING = re.compile(r"(?<=[\s\"'])(?:d|points)=([\"'])[MmLlHhVvCcSsQqTtAaZz0-9eE.,+\s-]{120,}+\1")
_SOURCE_MAP = re.compile(r"\"mappings\"\s{0,4}:\s{0,4}\"[A-Za-z0-9+/,;]{120,}+\"")


def embedded_data_spans(text: str) -> tuple[Span, ...]:
    """Return the spans that are no text, in order and apart from each other; takes time in
    proportion to the text.
    """
    spans = sorted(_found(text))
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _found(text: str) -> Iterator[Span]:
    """Return the spans of each kind; expensive patterns run only where a cheap test matches."""
    lines = text.split("\n")
    lengths = [*map(len, lines)]
    is_long = max(lengths) >= 2 * _MANY_PAIRS
    for found in (
        _DATA_URI.finditer(text)
        if any(scheme in text for scheme in ("data:", "DATA:", "Data:"))
        else ()
    ):
        if found.end() - found.start() >= MIN_CHARACTERS:
            before = _BEFORE.search(text, max(0, found.start() - _MOST_BEFORE), found.start())
            yield (before or found).start(), found.end()
    if is_long and any(
        max(map(len, line.split()), default=0) >= _LONG_WORD
        for line in lines
        if len(line) >= _LONG_WORD
    ):
        yield from (found.span() for found in _TOKEN.finditer(text) if _is_base64(found[0]))
        yield from (found.span() for found in _HEX.finditer(text) if _is_hex(found[0]))
    if _may_be_wrapped(lines, lengths):
        yield from (found.span() for found in _WRAPPED.finditer(text) if _is_base64(found[0]))
    if 61 in lengths and "\nM" in text:
        yield from (found.span() for found in _UUENCODED.finditer(text))
    if _may_be_dump(lines, is_long=is_long):
        yield from (found.span() for found in _HEX_PAIRS.finditer(text) if _is_hex(found[0]))
        yield from (found.span() for found in _HEX_DUMP.finditer(text) if _is_hex(found[0]))
    if ' d="' in text or " d='" in text or "points=" in text:
        yield from (found.span() for found in _DRAWING.finditer(text))
    if '"mappings"' in text:
        yield from (found.span() for found in _SOURCE_MAP.finditer(text))


def _may_be_wrapped(lines: Sequence[str], lengths: Sequence[int]) -> bool:
    """Whether there are three lines in a row that are one word each, as long as lines of base64
    are.
    """
    run = 0
    for line, length in zip(lines, lengths, strict=True):
        run = run + 1 if 40 <= length <= 140 and " " not in line.strip() else 0
        if run == 3:
            return True
    return False


def _may_be_dump(lines: Sequence[str], *, is_long: bool) -> bool:
    """Whether there may be many pairs of hexadecimal digits in a row: each such row is met by one
    of the looks.
    """
    for line in lines[::_LINE_STEP]:
        if (
            line[:1] in _HEX_BEGINS
            and len(words := line.split(None, 4)[1:4]) == 3
            and all(map(_HEX_WORD.fullmatch, words))
        ):
            return True
    for line in lines if is_long else ():
        if len(line) >= 2 * _MANY_PAIRS:
            words = line.split()
            if max(map(len, words), default=0) >= 2 * _MANY_PAIRS:
                return True
            if any(
                all(map(_HEX_WORD.fullmatch, words[n : n + 3]))
                for n in range(0, len(words) - 2, _WORD_STEP)
            ):
                return True
    return False


def _samples(run: str) -> Iterator[str]:
    middle = len(run) // 2
    yield run[:_SAMPLE]
    if len(run) > 2 * _SAMPLE:
        yield run[middle : middle + _SAMPLE]


def _is_base64(run: str) -> bool:
    """Whether letters of both cases and digits are mixed as chance does it: words, paths and
    identifiers are not.
    """
    return any(map(_is_mixed, _samples(run)))


def _is_mixed(sample: str) -> bool:
    letters = "".join(sample.split())
    upper, lower, digits = (
        sum(map(test, letters)) / len(letters) for test in (str.isupper, str.islower, str.isdigit)
    )
    turns = sum(a.islower() and b.isupper() for a, b in itertools.pairwise(letters)) / len(letters)
    return (
        upper > 0.12 and lower > 0.12 and digits > 0.02 and turns > 0.08 and len(set(letters)) >= 30
    )


def _is_hex(run: str) -> bool:
    """Whether digits and letters from A to F are mixed as chance does it: a column of numbers is
    text.
    """
    sample = [c for c in run[: 4 * _SAMPLE].lower() if c in "0123456789abcdef"]
    letters = sum(c >= "a" for c in sample) / max(1, len(sample))
    return 0.08 < letters < 0.7 and len(set(sample)) >= 12
