"""Titles without what a reader never sees of them: attributes, anchors, markers of translations."""

from __future__ import annotations

import re

_ATTRIBUTES = re.compile(
    r"(?<![ \t])[ \t]*+\{(?::?[ \t]*+(?:[#.][^{}\n]*+|-|[\w:-]++=[^{}\n]*+)|/\*[^{}\n"
    r"]*\*/)\}[ \t]*+$"
)
_ANCHOR = re.compile(
    r"<a\s[^<>\n]*>\s*</a>|<a\s[^<>\n]*/>|<!--[^\n]*?-->|\[\]\(\)(?:\{[^{}\n]*\})?", re.IGNORECASE
)
_MOST = 2_000  # characters of a line that are looked at


def strip_heading_markup(title: str) -> str:
    """Return a title without `{ #id .class key=value }`, `{: #id }`, `{-}` and empty anchors;
    `{id}` of a path stays.

    Args:
        title: the text of a heading, of any length.
    """
    title = title[:_MOST]
    if "<" in title or "[](" in title:
        title = _ANCHOR.sub("", title).strip()
    return _ATTRIBUTES.sub("", title).strip() if title.endswith("}") else title
