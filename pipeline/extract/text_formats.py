"""Which files can be read, by their names, and as what."""

from __future__ import annotations

import re

from livedex.pipeline.extract.formats.detection import DOCUMENT_EXTENSIONS
from livedex.pipeline.model import TextFormat

_ENDINGS: dict[TextFormat, frozenset[str]] = {
    "markdown": frozenset({"md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"}),
    "rst": frozenset({"rst", "rest"}),
    "org": frozenset({"org"}),
    "asciidoc": frozenset({"adoc", "asciidoc"}),
    "latex": frozenset({"tex", "latex", "ltx"}),
    "textile": frozenset({"textile"}),
    "mediawiki": frozenset({"mediawiki", "wiki"}),
    "man": frozenset({"man", "mdoc"}),
    "rows": frozenset({"csv", "tsv", "psv"}),
    "records": frozenset({"log"}),
    "plain": frozenset({"txt", "text"}),
    "lines": frozenset(
        (
            "bib json jsonl ndjson yaml yml toml ini cfg conf properties env srt vtt "
            "py pyi js mjs cjs ts tsx jsx java kt kts scala go rs c h cc cpp cxx hpp hh cs "
            "rb php pl pm lua r jl swift m mm dart ex exs erl hs "
            "ml mli clj sh bash zsh fish ps1 bat sql graphql proto tf hcl vue svelte css "
            "scss less diff patch"
        ).split()
    ),
}
_FORMATS: dict[str, TextFormat] = {
    ending: format_ for format_, endings in _ENDINGS.items() for ending in endings
}
_SNIFFED = frozenset({"", "txt", "text"})
"""Endings that say nothing of the format: what stands at the top of the text does."""
_BARE = {
    "readme",
    "license",
    "licence",
    "copying",
    "changelog",
    "changes",
    "authors",
    "contributing",
    "notice",
    "todo",
    "install",
    "makefile",
    "dockerfile",
    "news",
}
_BARE_CODE = frozenset({"makefile", "dockerfile"})
_MIME: dict[str, TextFormat] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/x-rst": "rst",
    "text/prs.fallenstein.rst": "rst",
    "text/x-org": "org",
    "text/org": "org",
    "text/asciidoc": "asciidoc",
    "text/x-asciidoc": "asciidoc",
    "text/x-tex": "latex",
    "application/x-tex": "latex",
    "application/x-latex": "latex",
    "text/x-latex": "latex",
    "text/x-textile": "textile",
    "text/x-wiki": "mediawiki",
    "text/troff": "man",
    "text/csv": "rows",
    "text/tab-separated-values": "rows",
    "text/x-log": "records",
    "application/json": "lines",
    "application/x-ndjson": "lines",
    "application/jsonl": "lines",
    "application/x-yaml": "lines",
    "application/yaml": "lines",
    "application/toml": "lines",
    "application/sql": "lines",
    "application/javascript": "lines",
    "text/javascript": "lines",
    "text/css": "lines",
    "text/plain": "plain",
}
_MIME_OF: dict[str, str] = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "org": "text/x-org",
    "latex": "text/x-tex",
    "asciidoc": "text/asciidoc",
    "markdown": "text/markdown",
    "rst": "text/x-rst",
}
_RST_SIGN = re.compile(r"(?m)^(?:\.\. [a-z-]+::|PEP: \d)|^([=\-~^\"'*+#])\1{3,}\n")
_STAMPED = re.compile(
    r"[\[(<]?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]|\d\d[-/.](?:\d\d|[A-Z][a-z]{2})[-/.]\d{4}[: "
    r"]|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d|\d{10}[. ]|\d\d:\d\d:\d\d)"
    r"|(?:\d{1,3}\.){3}\d{1,3} \S+ \S+ \["
)
_SIGNS_READ = 8192  # characters


def file_extension(name: str) -> str:
    """Return a file name's extension in lower case, or '' if it has none."""
    last = name.rsplit("/", 1)[-1]
    return last.rsplit(".", 1)[1].lower() if "." in last.lstrip(".") else ""


def is_supported_file(name: str) -> bool:
    """Whether a file of this name is taken for a document when a source does not say what to
    include.
    """
    last = name.rsplit("/", 1)[-1].lower()
    found = file_extension(name)
    return found in _FORMATS or found in DOCUMENT_EXTENSIONS or (not found and last in _BARE)


def detect_format(name: str, mime_type: str | None) -> tuple[TextFormat, str] | None:
    """How to read a file, and its MIME type; None when its ending is not known and no MIME type of
    text is given.
    """
    given = (mime_type or "").split(";")[0].strip().lower()
    if given in _MIME:
        return _MIME[given], given
    found = file_extension(name)
    format_ = _FORMATS.get(found)
    if format_ in ("markdown", "rst"):
        return format_, _MIME_OF[format_]
    if format_ is not None:
        return format_, given or _MIME_OF.get(found) or _MIME_OF.get(format_, "text/plain")
    last = name.rsplit("/", 1)[-1].lower()
    if (not found and last in _BARE) or given.startswith("text/"):
        return "lines" if last in _BARE_CODE else "plain", given or "text/plain"
    return ("plain", "text/plain") if not found else None


def sniff_format(text: str, format_: TextFormat, name: str) -> TextFormat:
    """Return what a plain text looks like at its top, where its name does not say:
    reStructuredText and logs are often kept in `.txt`.
    """
    if format_ != "plain" or file_extension(name) not in _SNIFFED:
        return format_
    head = text[:_SIGNS_READ]
    if len(_RST_SIGN.findall(head)) >= 3:
        return "rst"
    lines = [line for line in head.split("\n") if line.strip() and line[0] not in " \t"]
    return (
        "records"
        if len(lines) >= 5 and sum(1 for line in lines if _STAMPED.match(line)) > 0.8 * len(lines)
        else "plain"
    )
