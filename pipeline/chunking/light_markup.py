"""Headings of Org, AsciiDoc, LaTeX, Textile, MediaWiki and man pages; code and tables between their
marks are solid blocks.

Only what decides where a section begins is read; everything else is a paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from livedex.pipeline.chunking.blocks import Block, trim_span, truncate_title
from livedex.pipeline.text.heading_markup import strip_heading_markup

_LINE_AT_MOST = 1_000  # characters of a line in which a heading is looked for

Heading = tuple[int, str]


class _Markup(NamedTuple):
    """How a markup is read.

    Attributes:
        heading: level and title of a line that is a heading.
        opens: begins what no heading stands in.
        closes: the line that ends it, given what opened it.
    """

    heading: Callable[[str], Heading | None]
    opens: re.Pattern[str] | None = None
    closes: Callable[[re.Match[str]], re.Pattern[str]] = lambda opened: re.compile(
        re.escape(opened[0])
    )


_ORG = re.compile(
    r"(\*{1,12})[ \t]+(?:(?:TODO|DONE|NEXT|WAITING|CANCELLED)[ \t]+)?(?:\[#[A-Z]\][ \t]+)?(\S.*)"
)
_ORG_TAGS = re.compile(r"(?<![ \t])[ \t]++:[\w@#%:]{2,}+(?<=:)$")
_ASCIIDOC = re.compile(r"(={1,6}|#{1,6})[ \t]+(?:\[\[[^\]]*\]\])?(\S.*)")
_LATEX = re.compile(
    r"[ \t]*\\(part|chapter|section|subsection|subsubsection|paragraph|subparagraph)\*?[ "
    r"\t]*+(?:\[[^\]]*\])?[ \t]*+\{(.*)"
)
_LATEX_LEVELS = (
    "part",
    "chapter",
    "section",
    "subsection",
    "subsubsection",
    "paragraph",
    "subparagraph",
)
_LATEX_COMMAND = re.compile(r"\\label\{[^}]*\}|\\(?:texorpdfstring|[a-zA-Z]+)\*?[ \t]*|[{}]")
_TEXTILE = re.compile(r"h([1-6])(?:\([^)]*\)|\{[^}]*\}|\[[^\]]*\]|[<>=])*\.[ \t]+(\S.*)")
_MEDIAWIKI = re.compile(r"(={1,6})(.+)")
_MAN = re.compile(r"\.[ \t]*(SH|SS|Sh|Ss)[ \t]+(\S.*)")


def _org(line: str) -> Heading | None:
    found = _ORG.match(line)
    return (len(found[1]), _ORG_TAGS.sub("", found[2].rstrip())) if found else None


def _asciidoc(line: str) -> Heading | None:
    found = _ASCIIDOC.match(line)
    return (len(found[1]), found[2].rstrip().removesuffix(f" {found[1]}")) if found else None


def _latex(line: str) -> Heading | None:
    found = _LATEX.match(line)
    if found is None:
        return None
    depth, end = 1, len(found[2])
    for n, char in enumerate(found[2]):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            end = n
            break
    title = _LATEX_COMMAND.sub("", found[2][:end].replace("~", " ").replace("\\&", "&"))
    return _LATEX_LEVELS.index(found[1]) + 1, title.strip()


def _textile(line: str) -> Heading | None:
    found = _TEXTILE.match(line)
    return (int(found[1]), found[2].strip()) if found else None


def _mediawiki(line: str) -> Heading | None:
    line = line.split("<!--", 1)[0].rstrip()
    found = _MEDIAWIKI.match(line)
    if found is None or not line.endswith("=") or not line.strip("="):
        return None
    level = min(len(found[1]), len(line) - len(line.rstrip("=")))
    return level, line[level:-level].strip()


def _man(line: str) -> Heading | None:
    found = _MAN.match(line)
    return (1 if found[1].upper() == "SH" else 2, found[2].strip().strip('"')) if found else None


def _ends(
    pattern: str, flags: re.RegexFlag = re.IGNORECASE
) -> Callable[[re.Match[str]], re.Pattern[str]]:
    return lambda opened: re.compile(pattern.replace("NAME", re.escape(opened[1])), flags)


_MARKUPS = {
    "org": _Markup(
        _org,
        re.compile(r"[ \t]*#\+begin_(\w+)", re.IGNORECASE),
        _ends(r"(?<![ \t])[ \t]*+#\+end_NAME"),
    ),
    "asciidoc": _Markup(
        _asciidoc,
        re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}|[|,:!]={3,})[ \t]*$"),
        _ends(r"NAME[ \t]*$", re.RegexFlag(0)),
    ),
    "latex": _Markup(
        _latex,
        re.compile(r"[ \t]*\\begin\{(verbatim\*?|Verbatim|lstlisting|minted|comment)\}"),
        _ends(r"(?:\A.*)?\\end\{NAME\}"),
    ),
    "textile": _Markup(
        _textile, re.compile(r"[ \t]*<(pre|notextile)\b", re.IGNORECASE), _ends(r"(?:\A.*)?</NAME>")
    ),
    "mediawiki": _Markup(
        _mediawiki,
        re.compile(r"[ \t]*<(pre|nowiki|source|syntaxhighlight)\b", re.IGNORECASE),
        _ends(r"(?:\A.*)?</NAME>"),
    ),
    "man": _Markup(_man),
}


def markup_blocks(markup: str, text: str, start: int = 0) -> list[Block]:
    """Return the blocks of a text from `start` on, in order.

    Args:
        markup: a key of the table above.
        text: the whole text.
        start: offset of the body, behind front matter.
    """
    rules = _MARKUPS[markup]
    blocks: list[Block] = []
    begin: int | None = None  # of the open block
    closes: re.Pattern[str] | None = None
    at = start

    def close(end: int, *, solid: bool = False) -> None:
        nonlocal begin
        if begin is not None:
            a, b = trim_span(text, begin, end)
            if a < b:
                blocks.append(Block(a, b, "solid" if solid else "paragraph"))
        begin = None

    for line in text[start:].split("\n"):
        short = line[:_LINE_AT_MOST]
        after = at + len(line)
        if closes is not None:
            if closes.match(short):
                close(after, solid=True)
                closes = None
        elif not short.strip():
            close(at)
        elif heading := rules.heading(short):
            close(at)
            a, b = trim_span(text, at, after)
            blocks.append(
                Block(a, b, "heading", heading[0], truncate_title(strip_heading_markup(heading[1])))
            )
        elif rules.opens is not None and (opened := rules.opens.match(short)):
            close(at)
            begin, closes = at, rules.closes(opened)
            if opened.end() < len(short) and closes.search(short, opened.end()):
                closes = None
        elif begin is None:
            begin = at
        at = after + 1
    close(len(text), solid=closes is not None)
    return blocks


LIGHT_MARKUP_PARSERS: dict[str, Callable[[str, int], list[Block]]] = {
    name: partial(markup_blocks, name) for name in _MARKUPS
}
