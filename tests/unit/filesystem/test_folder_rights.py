"""The rights of a folder's documents, as its source has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from livedex.connectors.filesystem.folder import Folder, open_source_folder
from livedex.pipeline.settings.folder_source import FolderSource
from tests.support.pipelines.folder_connector import is_readable


def folder(root: Path, acl: list[str] | None) -> Folder:
    return open_source_folder(
        FolderSource(name="docs", path=root, acl=acl), readable=is_readable, max_bytes=1_000
    )


def test_each_document_carries_them_and_other_rights_publish_it_anew(tmp_path: Path) -> None:
    found = [
        folder(tmp_path, acl)
        for acl in (None, [], ["group:b", "group:a"], ["group:a", "group:b"], ["group:a"])
    ]
    carried = [made.changed(b"a.md", 1, found=os.stat(tmp_path)).acl for made in found]
    assert carried == [None, (), ("group:a", "group:b"), ("group:a", "group:b"), ("group:a",)]
    assert len({made.attributes for made in found}) == 4
    assert found[2].attributes == found[3].attributes


def test_they_are_written_down_and_read_again(tmp_path: Path) -> None:
    for acl in (None, [], ["group:a"]):
        made = FolderSource(name="docs", path=tmp_path, acl=acl)
        assert FolderSource.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize("acl", ["group:a", [""], [7], ["a\x00"], [" a"]])
def test_rights_without_sense_start_nothing(tmp_path: Path, acl: object) -> None:
    with pytest.raises(ValidationError):
        folder(tmp_path, acl)  # type: ignore[arg-type]
