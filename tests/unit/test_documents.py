"""The documents: links resolve, and quoted messages are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.support.repository.documentation import ROOT, broken_links, prose

DOCUMENTS = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
)
TROUBLESHOOTING = "docs/troubleshooting.md"
CODE = ("livedex", "pipeline", "consumers", "connectors", "migrations")
WITH_A_NUMBER = frozenset({"HTTP 401", "HTTP 403", "HTTP 404"})
"""Messages in which the code puts a number that the page names."""


@cache
def said_by_the_code() -> str:
    """Return every text in the code, each on a line of its own; `\0` stands for a value that is
    put in.
    """
    texts = []
    for folder in CODE:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    texts.append(
                        "".join(
                            str(part.value) if isinstance(part, ast.Constant) else "\0"
                            for part in node.values
                        )
                    )
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    return "\n".join(texts).replace("`", "")


def messages() -> list[str]:
    """Return the messages in the first columns of the tables of the troubleshooting page."""
    cells = [
        re.split(r"(?<!\\) \| ", line.removeprefix("| "))[0]
        for line in prose(TROUBLESHOOTING)
        if line.startswith("| ")
    ]
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]


def is_said(message: str) -> bool:
    """Return whether the code has every part of a message; a part may be put together of two at a
    colon.
    """
    parts = [part for part in message.split("…") if len(part.strip(" ():,")) > 3]
    said = said_by_the_code()
    return all(
        part.strip() in said or all(half in said for half in part.strip().split(": "))
        for part in parts
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_to_a_file_and_a_heading(document: str) -> None:
    assert broken_links(document) == []


def test_every_message_of_the_troubleshooting_page_is_one_of_the_code() -> None:
    found = messages()
    assert len(found) > 80
    assert [
        message for message in found if message not in WITH_A_NUMBER and not is_said(message)
    ] == []


ARCHITECTURE = [
    name for name in DOCUMENTS if name.startswith(("ARCHITECTURE", "docs/architecture"))
]
_MODULE = re.compile(r"`(?P<path>(?:[\w.-]+/)*[\w-]+\.(?:py|sql))(?:::?[\w.]+)?`")
_CLASS = re.compile(r"`(?P<name>[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+)(?:\.\w+)*(?:\(\))?`")


@pytest.mark.parametrize("document", ARCHITECTURE)
def test_every_module_that_the_architecture_names_is_there(document: str) -> None:
    files = [str(path.relative_to(ROOT)) for folder in CODE for path in (ROOT / folder).rglob("*")]
    named = [match["path"] for match in _MODULE.finditer((ROOT / document).read_text("utf-8"))]
    missing = {
        name
        for name in named
        if not any(file == name or file.endswith(f"/{name}") for file in files)
        and not (ROOT / name).exists()
    }
    assert missing == set()


@pytest.mark.parametrize("document", ARCHITECTURE)
def test_every_class_that_the_architecture_names_is_there(document: str) -> None:
    code = "\n".join(
        path.read_text("utf-8") for folder in CODE for path in (ROOT / folder).rglob("*.py")
    )
    text = (ROOT / document).read_text("utf-8")
    named = {match["name"] for match in _CLASS.finditer(text)}
    assert {name for name in named if not re.search(rf"\b{name}\b", code)} == set()
