"""What the sources are called that `livedex up FOLDER` makes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from livedex.app.wiring import watched_folders, write_up_state
from livedex.cli.up import folder_sources
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import Settings


def names(*folders: Path) -> list[str]:
    return [source.name for source in folder_sources(folders, Settings(), Path("no-data-here"))]


def test_a_source_is_called_like_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "my notes", "line\nbreak", "日本"):
        (tmp_path / name / "in").mkdir(parents=True)
        assert names(tmp_path / name, tmp_path / name / "in") == [name, "in"]
    monkeypatch.chdir(tmp_path / "a" / "in")
    assert names(Path(), Path("..")) == ["in", "a"]
    assert names(Path("/")) == ["root"]


def test_a_folder_that_is_a_link_gives_its_own_name_to_the_source(tmp_path: Path) -> None:
    for n in range(2):  # as with `current -> releases/N`: another target changes no id
        (tmp_path / f"release-{n}").mkdir()
        (tmp_path / "current").unlink(missing_ok=True)
        (tmp_path / "current").symlink_to(f"release-{n}")
        assert names(tmp_path / "current", tmp_path / f"release-{n}") == ["current", f"release-{n}"]


def test_the_index_is_no_folder_to_watch(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(data)
    for folder in (data, data / "inside", tmp_path / "link"):
        with pytest.raises(ConfigError, match="--data"):
            folder_sources([folder], Settings(), data)
    assert [source.path for source in folder_sources([tmp_path], Settings(), data)] == [tmp_path], (
        "around it, it is left out"
    )


def test_a_name_that_is_not_utf8_is_readable(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.mkdir(folder)
    assert names(Path(os.fsdecode(folder))) == ["caf\ufffd"]


def test_a_name_that_is_too_long_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ("n" * 240)).mkdir()
    with pytest.raises(ConfigError, match=r"^nnnn.*too long.*livedex\.toml$"):
        names(tmp_path / ("n" * 240))


def test_what_up_was_started_with_is_found_again_by_the_commands(tmp_path: Path) -> None:
    """Whatever the folder is called, and the folders above it."""
    for n, name in enumerate((b"plain", b"caf\xe9", b"line\nbreak", "日本".encode())):
        folder, data = (
            Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name, b"in"))),
            tmp_path / f"data-{n}",
        )
        for made in (folder, data):
            made.mkdir(parents=True)
        sources = folder_sources([folder, folder.parent], Settings(), data)
        write_up_state(data, sources, "http://127.0.0.1:1", 1)
        assert watched_folders(Settings(), data) == sources
