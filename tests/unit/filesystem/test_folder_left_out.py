"""Files that are no documents are counted by why."""

from __future__ import annotations

from pathlib import Path

from livedex.connectors.filesystem.folder import open_source_folder
from livedex.connectors.filesystem.folder_scanner import DirectoryWalk
from livedex.connectors.filesystem.skipped_files import skipped_files_summary
from livedex.pipeline.settings.folder_source import FolderSource
from tests.support.pipelines.folder_connector import is_readable


def _left_out(root: Path, **source: tuple[str, ...]) -> list[str]:
    folder = open_source_folder(
        FolderSource(name="docs", path=root, **source), readable=is_readable, max_bytes=1_000
    )  # type: ignore[arg-type]
    walk = DirectoryWalk(folder)
    list(walk.files())
    return skipped_files_summary(walk.left_out.as_object())


def test_files_of_formats_without_a_reader_are_counted_by_extension_and_secrets_are_named(
    tmp_path: Path,
) -> None:
    assert _left_out(tmp_path) == []
    for name in (
        "a.md",
        "b.PDF",
        "c.pdf",
        "sub/d.pdf",
        "e.ipynb",
        "Makefile",
        "prod.env",
        ".hidden.pdf",
        "f.md.tmp",
        "tls.pem",
        "g.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    first, second = _left_out(tmp_path)
    assert (
        first == "5 files of formats that can't be read: .pdf 3, .ipynb 1, without extension 1"
        or first.endswith("1, .ipynb 1")
    )
    assert second.startswith("2 files left out because the names look like credentials (")
    assert "prod.env" in second
    assert _left_out(tmp_path, include=("**/*.pdf",)) == []
    assert _left_out(tmp_path, exclude=("*.env", "*.pem"))[1:] == []
    [line] = _left_out(tmp_path, include=("**",))
    assert "2 files left out" in line


def test_a_long_list_is_shortened() -> None:
    [line] = skipped_files_summary({"formats": {f".x{n}": n + 1 for n in range(30)}})
    assert line.startswith("465 files of formats that can't be read: .x29 30, .x28 29")
    assert line.endswith("22 other kinds")
