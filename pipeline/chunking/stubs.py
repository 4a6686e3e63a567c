"""Directives that stand for text of another file (`{{#include …}}`, `--8<--`, `.. literalinclude::`): nothing is there to be found.

A passage neither begins nor ends with one, and none consists of them alone.
"""

from __future__ import annotations

import re

_CODE = "|".join((
    r"\{\{\s{0,4}#[a-z_]+\b[^}\n]*\}\}",  # mdBook
    r"\{[!*][^}\n]*[!*]\}",  # MkDocs
    r";?-{1,8}8<-{1,8}[^\n]*",  # PyMdown
))  # fmt: skip
"""What stands in code as well; others stand there only to be shown."""
_STUB = "|".join((
    _CODE,
    r"\{\{[<%][^}\n]*[>%]\}\}",  # Hugo
    r"\{%[^}\n]*%\}|\{@[^}\n]*\}",  # Jekyll
    r"\[!(?:INCLUDE|code)[^\n]*",  # DocFX
    r":::\s?code[^\n]*:::",  # Microsoft Learn
    r"<<<[ \t]*@?[/\w.][^\n]*|<!--\s{0,4}@?include\b[^\n]*-->",  # VitePress
    r"@include\([^)\n]*\)|!INCLUDE[ \t][^\n]*",
))  # fmt: skip
_MARKDOWN = re.compile(
    rf"^[ \t>]*+(?:(?P<fence>`{{3,}}|~{{3,}})(?:\{{(?:include|literalinclude)\}}[^\n]*\n(?:[ \t]*(?::[^\n]*)?\n)*+|[^\n]*\n(?:[ \t]*+(?:{_CODE})[ \t]*\n)++)[ \t>]*+(?P=fence)[ \t]*$"
    rf"|-{{2,8}}8<-{{2,8}}[ \t]*\n(?:[^\n]{{0,300}}\n){{1,20}}?-{{2,8}}8<-{{2,8}}[ \t]*$|(?:{_STUB})[ \t]*$)",
    re.MULTILINE,
)
_STUBS = {
    "markdown": _MARKDOWN,
    "rst": re.compile(r"^[ \t]*+\.\.[ \t]+(?:include|literalinclude)::[^\n]*(?:\n[ \t]+:[^\n]*)*+", re.MULTILINE),
    "asciidoc": re.compile(r"^include::[^\n]*\[[^\n]*$", re.MULTILINE),
    "org": re.compile(r"^[ \t]*+#\+INCLUDE:[^\n]*$", re.MULTILINE | re.IGNORECASE),
    "latex": re.compile(
        r"^[ \t]*+\\(?:input|include|subfile|lstinputlisting|verbatiminput)(?:\[[^\]\n]*\])?\{[^}\n]*\}[ \t]*$", re.MULTILINE
    ),
}
_SIGNS = {
    "markdown": ("{{", "{%", "{!", "{*", "{@", "8<", "[!", ":::", "<<<", "@include", "!INCLUDE", "<!--", "{include}", "{literalinclude}"), "rst": ("include::",), "asciidoc": ("include::",),
    "org": ("INCLUDE", "include"), "latex": ("\\",),
}  # fmt: skip


def may_hold_stubs(text: str, format: str) -> bool:
    """Return whether a sign of a directive stands anywhere in a text.

    Args:
        format: as in `pipeline.model.TextFormat`.
    """
    return any(sign in text for sign in _SIGNS.get(format, ()))


def without_stubs(text: str, start: int, end: int, format: str) -> tuple[int, int]:
    """Return the span without directives at its ends; empty where it holds nothing else.

    Args:
        format: one that has directives.
    """
    piece = text[start:end]
    first, last = 0, len(piece)
    for found in _STUBS[format].finditer(piece):
        if not piece[first : found.start()].strip():
            first = found.end()
    for found in reversed(list(_STUBS[format].finditer(piece))):
        if found.start() < first or piece[found.end() : last].strip():
            break
        last = found.start()
    left, right = piece[first:last].lstrip(), piece[first:last].rstrip()
    return (start + last - len(left), start + first + len(right)) if left else (start, start)
