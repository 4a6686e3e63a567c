"""The title of a text: its first heading at the top level, or what its markup says."""

from __future__ import annotations

import re

from livedex.pipeline.model import TextFormat
from livedex.pipeline.text.heading_markup import strip_heading_markup

_LOOKED_AT = 8192  # characters
_MAX_TITLE = 300

_FIRST_HEADING = re.compile(
    r"^ {0,3}(?:"
    r"(?:(?:[-*+]|\d{1,9}[.)]) {1,4})*(?P<fence>```++|~~~++)(?:.*\n)(?s:.*?)(?:^ "
    r"{0,7}(?P=fence)|\Z)"
    r"|<!--(?s:.*?)(?:-->|\Z)"
    r"|<(?P<raw>pre|script|style|textarea)\b(?s:.*?)(?:</(?P=raw)>|\Z)"
    r"|#[ \t]+(?P<title>\S.*)"
    r"|(?P<underlined>[^\s#>|*+`~<-].*)\n {0,3}=+[ \t]*$"
    r")",
    re.MULTILINE,
)
"""A title at the top level, or what hides lines that look like one: code, comments and raw HTML."""
_CLOSING = re.compile(r"(?:^|[ \t])#+$")
_RST_TITLE = re.compile(
    r"(?m)^(?:([!-/:-@\[-`{-~])\1{2,}[ \t]*\n[ \t]*)?(?P<title>\S.*)\n"
    r"(?P<drawn>([!-/:-@\[-`{-~])\4{2,})[ \t]*$"
)
_FIRST: dict[str, re.Pattern[str]] = {
    "org": re.compile(r"(?mi)^#\+title:[ \t]*(?P<title>\S.*)|^\*[ \t]+(?P<heading>\S.*)"),
    "asciidoc": re.compile(r"(?m)^[=#][ \t]+(?P<title>\S.*)"),
    "latex": re.compile(
        r"(?m)^[^%\n]{0,200}\\title[ \t]{0,8}\{(?P<title>[^{}\n]+)\}|^[ "
        r"\t]{0,8}\\(?:part|chapter|section)\*?\{(?P<heading>[^{}\n]+)\}"
    ),
    "textile": re.compile(r"(?m)^h1(?:\([^)\n]*\))?\.[ \t]+(?P<title>\S.*)"),
    "mediawiki": re.compile(r"(?m)^=(?!=)(?P<title>[^=\n]++)=[ \t]*+$"),
    "man": re.compile(r"(?m)^\.[ \t]{0,8}(?:TH|Dt)[ \t]+\"?(?P<title>[^\s\"]+)"),
}


def find_title(text: str, start: int, format_: TextFormat) -> str | None:
    """Return the title that a text gives itself; None where it has none.

    Args:
        text: the whole text.
        start: where the body begins.
        format_: of the text.
    """
    head = text[start : start + _LOOKED_AT]
    if format_ == "markdown":
        return _first_heading(head)
    if format_ == "rst":
        return _first_drawn(head)
    found = _FIRST[format_].search(head) if format_ in _FIRST else None
    if found is None:
        return None
    groups = found.groupdict()
    title = (groups["title"] or groups.get("heading") or "").strip()
    return (
        strip_heading_markup(title.replace("\\&", "&") if format_ == "latex" else title)[
            :_MAX_TITLE
        ]
        or None
    )


def _first_heading(head: str) -> str | None:
    """The first title at the top level, outside of fenced code."""
    for found in _FIRST_HEADING.finditer(head):
        if title := found["title"] or found["underlined"]:
            title = strip_heading_markup(title.strip())
            return (_CLOSING.sub("", title) if found["title"] else title)[
                :_MAX_TITLE
            ].strip() or None
    return None


def _first_drawn(head: str) -> str | None:
    """The first title with a line under it: four marks, or as many as the title has characters."""
    for found in _RST_TITLE.finditer(head):
        title = found["title"].strip()
        if len(found["drawn"]) >= min(len(title), 4):
            return title[:_MAX_TITLE]
    return None
