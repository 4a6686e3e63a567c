"""A folder with documents and the index of it, on a database of the test's own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from livedex.app.wiring import open_app_context, write_up_state
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings
from tests.support.pipelines.indexed_folder import IndexedFolder, page, paragraph


@pytest.fixture
async def indexed(
    tmp_path: Path, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[IndexedFolder]:
    """An index of `docs`, a folder with two pages and a note, synced."""
    for name in [
        name
        for name in os.environ
        if name.startswith("LIVEDEX_") and not name.startswith("LIVEDEX_TEST_")
    ]:
        monkeypatch.delenv(name)
    folder, data = tmp_path / "docs", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    write_up_state(data, [FolderSource(name="docs", path=folder)], "http://127.0.0.1:1", 0)
    settings: Any = Settings(database_url=SecretStr(owner_url))
    async with open_app_context(settings, data, connections=8) as s:
        made = IndexedFolder(s, folder)
        made.write("one.md", page(1))
        made.write("two.md", page(2))
        made.write("notes/three.txt", paragraph(3))
        await made.sync()
        yield made
