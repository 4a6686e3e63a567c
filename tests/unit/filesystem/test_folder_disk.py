"""Looking at a path and reading it: never out of the folder, never waiting."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from livedex.connectors.filesystem.safe_file_access import (
    FileRead,
    FolderUnavailableError,
    PathStatus,
    folder_identity,
    inspect_path,
    open_folder,
    read_file,
)


def at(root: Path, path: str) -> PathStatus:
    with open_folder(os.fsencode(root)) as descriptor:
        return inspect_path(descriptor, os.fsencode(path))


def content(
    root: Path, path: str, max_bytes: int = 10_000_000, even_if_open: bool = False
) -> FileRead:
    with open_folder(os.fsencode(root)) as descriptor:
        return read_file(
            descriptor, os.fsencode(path), max_bytes=max_bytes, even_if_open=even_if_open
        )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.md").write_text("secret")
    (tmp_path / "root/sub").mkdir(parents=True)
    (tmp_path / "root/sub/a.md").write_text("inside")
    return tmp_path / "root"


def test_each_kind_of_thing_is_told_apart(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("sub/a.md")
    kinds = {
        name: at(root, name).kind
        for name in ("sub/a.md", "sub", "pipe", "link", "nothing", "sub/a.md/below", "no/where")
    }
    assert kinds == {
        "sub/a.md": "file",
        "sub": "folder",
        "pipe": "other",
        "link": "other",
        "nothing": "absent",
        "sub/a.md/below": "absent",
        "no/where": "absent",
    }


def test_a_folder_replaced_by_a_link_leads_nowhere(root: Path) -> None:
    (root / "sub/a.md").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to("../outside")
    assert at(root, "sub/a.md").kind == "absent"
    assert content(root, "sub/a.md").error in (errno.ENOTDIR, errno.ELOOP)


def test_a_file_replaced_by_a_link_is_not_read(root: Path) -> None:
    (root / "sub/a.md").unlink()
    (root / "sub/a.md").symlink_to(root.parent / "outside/a.md")
    assert content(root, "sub/a.md").error == errno.ELOOP


def test_a_pipe_without_a_writer_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    assert content(root, "pipe.md").error is not None


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_048_576, 2_500_000])
def test_a_file_is_read_whole(root: Path, size: int) -> None:
    written = os.urandom(size)
    (root / "x").write_bytes(written)
    reading = content(root, "x")
    assert reading.content == written
    assert reading.whole


def test_a_file_above_the_limit_is_not_read(root: Path) -> None:
    (root / "x").write_bytes(b"12345")
    assert content(root, "x", max_bytes=5).content == b"12345"
    reading = content(root, "x", max_bytes=4)
    assert (reading.content, reading.stat and reading.stat.st_size) == (None, 5)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who writes")
def test_a_file_that_somebody_has_open_for_writing_is_left_alone(root: Path) -> None:
    with (root / "x").open("w") as file:
        file.write("half")
        file.flush()
        assert (content(root, "x").is_open_for_writing, content(root, "x").content) == (True, None)
        assert content(root, "x", even_if_open=True).content == b"half"
        with (root / "x").open() as reader:
            assert reader.read() == "half"
    assert (content(root, "x").is_open_for_writing, content(root, "x").content) == (False, b"half")


def test_a_root_that_is_missing_or_another_one_is_no_empty_folder(root: Path) -> None:
    before = folder_identity(os.fsencode(root))
    root.rename(root.with_name("away"))
    with (
        pytest.raises(FolderUnavailableError, match="No such file"),
        open_folder(os.fsencode(root)),
    ):
        pass
    root.mkdir()
    with (
        pytest.raises(FolderUnavailableError, match="another folder"),
        open_folder(os.fsencode(root), before),
    ):
        pass
    root.rmdir()
    root.write_text("a file")
    with pytest.raises(FolderUnavailableError, match="no folder"):
        folder_identity(os.fsencode(root))


def test_a_path_deeper_than_the_system_takes_at_once_is_reached(root: Path) -> None:
    parts = ["d" * 200] * 30
    here = os.open(root, os.O_DIRECTORY)
    for part in parts:
        os.mkdir(part, dir_fd=here)
        below = os.open(part, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("x.md", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert at(root, "/".join([*parts, "x.md"])).kind == "file"
