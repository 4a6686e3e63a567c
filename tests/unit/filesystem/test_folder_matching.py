"""Which names are documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedex.connectors.filesystem.file_matcher import FileMatcher
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.folder_source import FolderSource
from tests.support.pipelines.folder_connector import is_readable

ROOT = Path("/srv/docs")


def matcher(
    *include: str,
    exclude: tuple[str, ...] = (),
    ignored: tuple[Path, ...] = (),
    only: bytes | None = None,
) -> FileMatcher:
    source = FolderSource(name="docs", path=ROOT, include=include, exclude=exclude)
    return FileMatcher(source, ROOT, readable=is_readable, ignored=ignored, only=only)


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "a/b/c.TXT",
        "4913.md",
        "a.md.txt",
        "-rf.md",
        "$HOME.md",
        "line\nbreak/tab\t.md",
        "swp.md",
        "~.md",
    ],
)
def test_by_default_every_format_that_can_be_read_is_a_document(path: str) -> None:
    assert matcher().selects(path.encode())


TEMPORARY = [
    ".a.md.swp",
    "a.md~",
    "a.md.tmp",
    "4913",
    "#a.md#",
    ".#a.md",
    ".~lock.a.md#",
    "~$a.md",
    "a.md.part",
    "a.md.crdownload",
    "a.md.SWP",
]
TEMPORARY += ["a.md___jb_tmp___", "a.md.sb-1f2e3d4c-AbCdEf"]


@pytest.mark.parametrize("name", TEMPORARY)
def test_what_editors_and_downloads_leave_for_a_moment_is_none(name: str) -> None:
    for chosen in (matcher(), matcher("**/*")):
        assert not chosen.selects(name.encode())
        assert not chosen.selects(f"sub/{name}".encode())


def test_hidden_names_are_none_unless_they_are_named() -> None:
    assert not matcher().selects(b".git/a.md")
    assert not matcher("**/*.md").selects(b".github/a.md")
    assert matcher(".github/**/*.md").selects(b".github/sub/a.md")


@pytest.mark.parametrize(
    ("include", "path", "expected"),
    [
        ("**/*.md", "a.md", True),
        ("**/*.md", "x/y/a.md", True),
        ("**/*.md", "x/line\nbreak/a.md", True),
        ("**/*.md", "a.txt", False),
        ("*.md", "x/a.md", True),
        ("/*.md", "x/a.md", False),
        ("handbook/**", "handbook/x/a.md", True),
        ("handbook/**", "other/a.md", False),
        ("**/*.png", "a.png", True),
    ],
)
def test_globs_are_those_of_gitignore(include: str, path: str, expected: bool) -> None:
    assert matcher(include).selects(path.encode()) is expected


def test_excluded_wins_over_included_at_any_depth() -> None:
    chosen = matcher("**/*.md", exclude=("**/drafts/**", "secret.md"))
    assert chosen.selects(b"a/b.md")
    for path in (b"drafts/a.md", b"x/drafts/y/a.md", b"secret.md", b"x/secret.md"):
        assert not chosen.selects(path)


def test_an_excluded_folder_is_not_entered() -> None:
    chosen = matcher(exclude=("node_modules/",))
    assert not chosen.enters_directory(b"x/node_modules")
    assert not chosen.selects(b"node_modules/x/readme.md")
    assert chosen.enters_directory(b"x")


def test_what_lies_in_an_ignored_path_is_none() -> None:
    chosen = matcher(ignored=(ROOT / "data", Path("/elsewhere")))
    assert not chosen.selects(b"data/a.md")
    assert chosen.selects(b"data2/a.md")


def test_a_source_of_one_file_has_this_document_alone() -> None:
    chosen = matcher(only=b"notes.weird")
    assert chosen.selects(b"notes.weird")
    assert not chosen.selects(b"a.md")
    assert not chosen.enters_directory(b"sub")


def test_a_glob_without_sense_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match="docs: include"):
        matcher("!")
