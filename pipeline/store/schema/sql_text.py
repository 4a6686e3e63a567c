"""Splitting and quoting of SQL text."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$|;|[^;'\"$/-]+|.",
    re.DOTALL,
)


def split_statements(sql: str) -> list[str]:
    """Return the statements of a script in order, without comments and semicolons.

    Args:
        sql: the script.
    """
    found, parts = [], list[str]()
    for token in _TOKEN.finditer(sql):
        text = token[0]
        if text == ";":
            found.append("".join(parts).strip())
            parts = []
        elif not text.startswith(("--", "/*")):
            parts.append(text)
    return [statement for statement in [*found, "".join(parts).strip()] if statement]


def dollar_quoted(sql: str) -> str:
    """Return a text as a dollar-quoted constant, with a tag that the text does not contain."""
    tag = "livedex"
    while f"${tag}$" in sql:
        tag += "_"
    return f"${tag}${sql}${tag}$"
