"""The time for a text grows no faster than the text: no pattern, and no kind of document, is one
that a short text holds a process up with.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_GUARD_S = 300  # against hanging

BOUNDED = {
    "livedex.pipeline.chunking.light_markup:_LATEX_COMMAND": "a line of 1,000 characters",
    "livedex.pipeline.text.heading_markup:_ANCHOR": "2,000 characters of a title",
    "livedex.pipeline.settings.setting_environment:_SERVICE": "names of environment variables",
    "livedex.connectors.filesystem.credential_files:_WILDCARD": "globs of the settings",
    "livedex.pipeline.store.schema.privileges:_GRANT": "the scripts of this package",
    "livedex.pipeline.store.schema.privileges:_SIGNATURES": "the scripts of this package",
    "livedex.pipeline.store.schema.sql_text:_TOKEN": "the scripts of this package",
}
"""Patterns that are square, with what bounds the texts that they are applied to."""

BASE64 = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0\n"
DUMP = "00000010: dead beef 0011 2233 4455 6677 8899 aabb  ................\n"
DOCUMENTS = [
    ("a.txt", "", "deadbeef ", ""),
    ("a.txt", "", "deadbeef\n", ""),
    ("a.txt", "", "de ad be ef ", "x"),
    ("a.c", "", "0xde, ", ""),
    ("a.txt", "", "\\xde", ""),
    ("a.txt", "", DUMP, ""),
    ("a.txt", "", "0123456789abcdef" * 5 + "\n", ""),
    ("a.md", "", BASE64, "!"),
    ("a.md", "data:a/b;base64,", BASE64, "!"),
    ("a.md", "", "data:a/b;a=b", ","),
    ("a.md", "", "M" + "A" * 60 + "\n", ""),
    ("a.html", "", ' d="M1 2', ""),
    ("a.json", "", '"mappings":"A', ""),
    ("a.md", "---", " ", "x\n"),
    ("a.md", "---", "\t", "yaml\n"),
    ("a.md", "---\n", "# a\n", "x"),
    ("a.md", "---\na: ", "k: v\n", "---\n"),
    ("a.md", "---\n", "k: {\n", "---\n"),
    ("a.md", '{"a":', '{"a":', ""),
    ("a.md", "+++\n", "a.b=1\n", "+++\n"),
    ("a.md", "{{#include a}}\n\n", "`", "\n{{#include a}}\n"),
    ("a.md", "{{#include a}}\n", "```\n{{#include a}}\n", ""),
    ("a.md", "", "--8<--\nx\n", ""),
    ("a.md", "{{", "```{include} a\n:a\n", ""),
    ("a.md", "", "# a" + " " * 1_900 + "b}\n", ""),
    ("a.md", "# a ", "<!--", ""),
    ("a.md", "", "# " + "<!--" * 400 + "\n", ""),
    ("a.md", "# ", "{#a", "}"),
    ("a.md", "", "- ", "x"),
    ("a.md", "", "- ```\n", ""),
    ("a.md", "a\n", "=", "x"),
    ("a.md", "a\n-", " ", "x"),
    ("a.md", "", "<a ", ">"),
    ("a.md", "", "<pre>\n", ""),
    ("a.md", "", "|a|b\n", ""),
    ("a.md", "", "## b\n", ""),
    ("a.wiki", "= ", " ", ""),
    ("a.wiki", "=", "\t", "a"),
    ("a.wiki", "", "<pre" + " " * 900 + "\n</pre>\n", ""),
    ("a.tex", "", "\\section" + " " * 980 + "x\n", ""),
    ("a.tex", "", "\\section{\\label{", ""),
    ("a.tex", "", "\\begin{verbatim}" + "x" * 960 + "\n\\end{verbatim}\n", ""),
    ("a.org", "", "* a" + " " * 980 + "x\n", ""),
    ("a.org", "", "#+begin_src" + " " * 980 + "\n#+end_src\n", ""),
    ("a.adoc", "", "[[a", "]"),
    ("a.textile", "h1", "()", ""),
    ("a.man", ".TH", " ", ""),
    ("a.rst", "", "====\na\n", ""),
    ("a.rst", "a\n", "=", "x"),
    ("a.log", "", " at x\n", ""),
    ("a.csv", "", '"a,', ""),
    ("a.csv", "", "a,b\n", '"'),
    ("a.txt", "a", " ", "b"),
    ("a.txt", "a", "\n", "b"),
    ("a.txt", "a", "\u3000\n", "b"),
    ("a.txt", "", "\u0301", ""),
    ("a.txt", "", "\U0001f1e6", ""),
    ("a.txt", "", "\U0001f468\u200d", ""),
    ("a.txt", "", "。", "」"),
    ("a.txt", "", "a.", ""),
    ("a.txt", "", ". ", ""),
    ("a.py", "", "(", ""),
    ("a.json", "[", "1,", "]"),
    ("a.yaml", "", "- k: v\n", ""),
    ("a.txt", "", "\x1b[0m", ""),
    ("a.txt", "", "aB", ""),
    ("a.txt", "", "12:30 ", ""),
]
"""Name, beginning, what is repeated, and end."""


def slow(kind: str, given: str = "") -> tuple[list[str], int]:
    """What grew too fast, and how many were measured."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.models.regex_growth", kind],
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        check=True,
        timeout=_GUARD_S,
    )
    *lines, last = ran.stdout.splitlines()
    return lines, int(last.split()[0])


def test_the_time_of_no_pattern_grows_faster_than_the_text_that_it_is_applied_to() -> None:
    lines, count = slow("patterns")
    assert [line for line in lines if line.split()[0] not in BOUNDED] == []
    assert count > 200


def test_the_time_for_no_document_grows_faster_than_the_document() -> None:
    lines, count = slow("documents", json.dumps(DOCUMENTS))
    assert lines == []
    assert count == len(DOCUMENTS)
