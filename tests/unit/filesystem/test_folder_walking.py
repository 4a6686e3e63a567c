"""A walk gives the files in the order of the ledger."""

from __future__ import annotations

import os
from pathlib import Path

from livedex.connectors.filesystem.folder import Folder, open_source_folder
from livedex.connectors.filesystem.folder_scanner import DirectoryWalk, list_directories
from livedex.pipeline.settings.folder_source import FolderSource
from tests.support.pipelines.folder_connector import is_readable


def folder(root: Path) -> Folder:
    return open_source_folder(
        FolderSource(name="docs", path=root, exclude=("skipped/",)),
        readable=is_readable,
        max_bytes=1_000,
    )


def test_files_come_in_the_order_of_their_paths_as_bytes(tmp_path: Path) -> None:
    names = [
        "a.md",
        "a/b.md",
        "a-b.md",
        "a/b/c.md",
        "a0/x.md",
        "a!/x.md",
        "ä.md",
        "z/ä/y.md",
        "b.md/inner.md",
        "B.md",
        "skipped/x.md",
        "c.png",
        ".h/x.md",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [path for path, _ in DirectoryWalk(folder(tmp_path)).files()]
    assert found == sorted(
        name.encode()
        for name in names
        if "skipped" not in name and "png" not in name and ".h" not in name
    )


def test_a_part_of_a_folder_is_walked_alone(tmp_path: Path) -> None:
    for name in ("a/x.md", "a/b/y.md", "a.md", "a0/z.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    walk = DirectoryWalk(folder(tmp_path), b"a")
    assert [path for path, _ in walk.files()] == [b"a/b/y.md", b"a/x.md"]
    assert walk.folders == [b"a", b"a/b"]
    assert sorted(list_directories(folder(tmp_path))) == [b"", b"a", b"a/b", b"a0"]


def test_a_walk_of_a_part_that_is_gone_is_empty_and_closes_nothing(tmp_path: Path) -> None:
    walk = DirectoryWalk(folder(tmp_path), b"nothing")
    assert list(walk.files()) == []
    assert walk.closed == []


def test_a_tree_deeper_than_a_path_may_be_long_is_closed_where_it_cannot_be_listed(
    tmp_path: Path,
) -> None:
    here = os.open(tmp_path, os.O_DIRECTORY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    walk = DirectoryWalk(folder(tmp_path))
    assert list(walk.files()) == []
    assert len(walk.closed) == 1
    assert walk.is_in_unreadable_directory(walk.closed[0] + b"/x.md")
