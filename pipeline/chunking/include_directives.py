"""Directives that stand for text of another file (`{{#include …}}`, `--8<--`, `..
literalinclude::`): nothing is there to be found.

They are left out of passages.
"""

from __future__ import annotations

import re
from bisect import bisect_left

_CODE = "|".join(
    (
        r"\{\{\s{0,4}#[a-z_]+\b[^}\n]*\}\}",  # mdBook
        r"\{[!*][^}\n]*[!*]\}",  # MkDocs
        r";?-{1,8}8<-{1,8}[^\n]*",  # PyMdown
    )
)
"""What stands in code as well; others stand there only to be shown."""
_STUB = "|".join(
    (
        _CODE,
        r"\{\{[<%][^}\n]*[>%]\}\}",  # Hugo
        r"\{%[^}\n]*%\}|\{@[^}\n]*\}",  # Jekyll
        r"\[!(?:INCLUDE|code)[^\n]*",  # DocFX
        r":::\s?code[^\n]*:::",  # Microsoft Learn
        r"<<<[ \t]*@?[/\w.][^\n]*|<!--\s{0,4}@?include\b[^\n]*-->",  # VitePress
        r"@include\([^)\n]*\)|!INCLUDE[ \t][^\n]*",
    )
)


def _fenced(mark: str, name: str) -> str:
    """A fence around nothing but directives.

    It is read once, whole; a shorter one closes directives that stand on lines of their own.
    """
    options, lines = (
        r"\{(?:include|literalinclude)\}[^\n]*+\n(?:[ \t]*+(?::[^\n]*+)?\n)*+",
        rf"[^\n]*+\n(?:[ \t]*+(?:{_CODE})[ \t]*\n)++",
    )
    return (
        rf"(?P<{name}>{mark}{{3,}}+)(?:{options}[ \t>]*+(?P={name})[ \t]*+$"
        rf"|{lines}[ \t>]*+(?!(?P={name}){mark}){mark}{{3,}}+[ \t]*+$)"
    )


_MARKDOWN = re.compile(
    rf"^[ \t>]*+(?:{_fenced('`', 'ticks')}|{_fenced('~', 'tildes')}"
    rf"|-{{2,8}}8<-{{2,8}}[ \t]*\n(?:[^\n]{{0,300}}\n){{1,20}}?-{{2,8}}8<-{{2,8}}[ "
    rf"\t]*$|(?:{_STUB})[ \t]*$)",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t>]*+(?P<marks>`{3,}+|~{3,}+)(?P<info>[^\n]*+)$", re.MULTILINE)
_STUBS = {
    "markdown": _MARKDOWN,
    "rst": re.compile(
        r"^[ \t]*+\.\.[ \t]+(?:include|literalinclude)::[^\n]*(?:\n[ \t]+:[^\n]*)*+", re.MULTILINE
    ),
    "asciidoc": re.compile(r"^include::[^\n]*\[[^\n]*$", re.MULTILINE),
    "org": re.compile(r"^[ \t]*+#\+INCLUDE:[^\n]*$", re.MULTILINE | re.IGNORECASE),
    "latex": re.compile(
        r"^[ \t]*+\\(?:input|include|subfile|lstinputlisting|verbatiminput)(?:\[[^\]\n"
        r"]*\])?\{[^}\n]*\}[ \t]*$",
        re.MULTILINE,
    ),
}
_SIGNS = {
    "markdown": (
        "{{",
        "{%",
        "{!",
        "{*",
        "{@",
        "8<",
        "[!",
        ":::",
        "<<<",
        "@include",
        "!INCLUDE",
        "<!--",
        "{include}",
        "{literalinclude}",
    ),
    "rst": ("include::",),
    "asciidoc": ("include::",),
    "org": ("INCLUDE", "include"),
    "latex": ("\\",),
}


def include_directive_spans(text: str, start: int, format: str) -> list[tuple[int, int]]:
    """Return the spans of directives from `start` on, in order.

    Args:
        text: the whole text.
        start: offset of the body, behind front matter.
        format: as in `livedex.pipeline.model.TextFormat`.
    """
    if not any(sign in text for sign in _SIGNS.get(format, ())):
        return []
    spans = [found.span() for found in _STUBS[format].finditer(text, start)]
    if not spans or format != "markdown":
        return spans
    fences = _fences(text, start)
    return [
        span
        for span in spans
        if not (n := bisect_left(fences, span)) or span[0] >= fences[n - 1][1]
    ]


def _fences(text: str, start: int) -> list[tuple[int, int]]:
    """Blocks of fenced code, in order: a directive in one, beside other lines, is shown to the
    reader.
    """
    fences: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for found in _FENCE.finditer(text, start):
        if opened is None:
            opened = found
        elif found["marks"].startswith(opened["marks"]) and not found["info"].strip():
            fences.append((opened.start(), found.end()))
            opened = None
    return [*fences, (opened.start(), len(text))] if opened is not None else fences
