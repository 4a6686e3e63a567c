"""What `livedex up` says it will do, before it is ready."""

from __future__ import annotations

from pathlib import Path

from livedex.cli.up import watching_message
from livedex.pipeline.settings.folder_source import FolderSource


def test_without_a_folder_it_says_how_documents_come_in_and_how_to_watch_one() -> None:
    assert watching_message([]).startswith("watching no folder: ")
    assert "livedex up FOLDER" in watching_message([]) and "PUT /v1/documents" in watching_message(
        []
    )


def test_folders_are_named_with_their_paths_in_one_printable_line() -> None:
    line = watching_message(
        [
            FolderSource(name="a\nb", path=Path("/srv/a\x1b[0m")),
            FolderSource(name="c", path=Path("/srv/c")),
        ]
    )
    assert line == "watching a b (/srv/a [0m), c (/srv/c)"
    assert watching_message(
        [FolderSource(name=str(n), path=Path("/x")) for n in range(40)]
    ).endswith(", 30 more")
