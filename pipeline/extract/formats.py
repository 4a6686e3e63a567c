"""Which files can be read, by their names, and as what."""

from __future__ import annotations

import re

from pipeline.model import TextFormat

_MARKDOWN = {"md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"}
_RST = {"rst", "rest"}
_PLAIN = {
    "txt",
    "text",
    "log",
    "csv",
    "tsv",
    "org",
    "adoc",
    "asciidoc",
    "tex",
    "bib",
    "json",
    "jsonl",
    "ndjson",
    "yaml",
    "yml",
    "toml",
    "ini",
    "cfg",
    "conf",
    "properties",
    "env",
    "srt",
    "vtt",
    "py",
    "pyi",
    "js",
    "mjs",
    "cjs",
    "ts",
    "tsx",
    "jsx",
    "java",
    "kt",
    "kts",
    "scala",
    "go",
    "rs",
    "c",
    "h",
    "cc",
    "cpp",
    "cxx",
    "hpp",
    "hh",
    "cs",
    "rb",
    "php",
    "pl",
    "pm",
    "lua",
    "r",
    "jl",
    "swift",
    "m",
    "mm",
    "dart",
    "ex",
    "exs",
    "erl",
    "hs",
    "ml",
    "mli",
    "clj",
    "sh",
    "bash",
    "zsh",
    "fish",
    "ps1",
    "bat",
    "sql",
    "graphql",
    "proto",
    "tf",
    "hcl",
    "vue",
    "svelte",
    "css",
    "scss",
    "less",
    "diff",
    "patch",
}
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
_MIME = {"text/markdown": "markdown", "text/x-markdown": "markdown", "text/x-rst": "rst", "text/prs.fallenstein.rst": "rst"}
_RST_SIGN = re.compile(r"(?m)^(?:\.\. [a-z-]+::|PEP: \d)|^([=\-~^\"'*+#])\1{3,}\n")


def ending(name: str) -> str:
    """What stands behind the last dot of a file name, in lower case; empty where there is no dot."""
    last = name.rsplit("/", 1)[-1]
    return last.rsplit(".", 1)[1].lower() if "." in last.lstrip(".") else ""


def is_readable(name: str) -> bool:
    """Whether a file of this name is taken for a document when a source does not say what to include."""
    last = name.rsplit("/", 1)[-1].lower()
    found = ending(name)
    return found in _MARKDOWN or found in _RST or found in _PLAIN or (not found and last in _BARE)


def format_of(name: str, mime_type: str | None) -> tuple[TextFormat, str] | None:
    """How to read a file, and its MIME type; None when its ending is not known and no MIME type of text is given."""
    given = (mime_type or "").split(";")[0].strip().lower()
    if given in _MIME:
        return ("markdown" if _MIME[given] == "markdown" else "rst"), given
    found = ending(name)
    if given == "text/plain":
        return "plain", given
    if found in _MARKDOWN:
        return "markdown", "text/markdown"
    if found in _RST:
        return "rst", "text/x-rst"
    if is_readable(name) or given.startswith("text/") or given in ("application/json", "application/x-yaml", "application/toml"):
        return "plain", given or _plain_mime(found)
    return ("plain", "text/plain") if not found else None


def _plain_mime(found: str) -> str:
    return {"csv": "text/csv", "tsv": "text/tab-separated-values", "json": "application/json"}.get(found, "text/plain")


def sniffed(text: str, format_: TextFormat) -> TextFormat:
    """reStructuredText is often kept in `.txt`: a plain text with its signs at the top is read as such."""
    return "rst" if format_ == "plain" and len(_RST_SIGN.findall(text[:8192])) >= 3 else format_
