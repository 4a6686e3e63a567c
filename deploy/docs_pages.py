"""MkDocs hook: publish the documents of the repository's root as pages, and resolve links as GitHub
does.

Pages link to other files by their path in the repository (`../ARCHITECTURE.md`), so the links work
on GitHub too. On the site, a link to a published file leads to its page or its copy; a link to any
other file of the repository is shown as plain text, since the site doesn't have it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "README.md": "index.md",
}
"""Where a document of the root stands on the site."""
COPIES = (
    "docker-compose.yml",
    ".env.example",
    "LICENSE",
    "deploy/livedex.toml",
    "deploy/asyncapi.json",
)
"""Files that pages link to and that the site offers for download."""
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the documents of the root and the downloads."""
    for name, uri in PAGES.items():
        if name != "README.md":
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))
    for name in COPIES:
        files.append(File.generated(config, _download(name), abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Resolve the links of a page."""
    names = {uri: name for name, uri in PAGES.items() if name != "README.md"}
    path = names.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if n % 2 else _LINK.sub(lambda found: _resolved(found, path, page.file.src_uri), part)
        for n, part in enumerate(parts)
    )


def _resolved(found: re.Match[str], path: str, uri: str) -> str:
    text, target, anchor = (
        found[1],
        posixpath.normpath(posixpath.join(posixpath.dirname(path), found[2])),
        found[3] or "",
    )
    if target.startswith("docs/"):
        there = target.removeprefix("docs/")
    elif target in PAGES:
        there = PAGES[target]
    elif target in COPIES:
        there = _download(target)
    elif (ROOT / target).exists():
        return text
    else:
        return found[0]
    return f"[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{anchor})"


def _download(name: str) -> str:
    return f"files/{posixpath.basename(name).removeprefix('.')}"
