"""Where the system gives no more watches, the folders left out are scanned, and the health says
which limit to raise.
"""

from __future__ import annotations

from typing import Any

import pytest

from livedex.connectors.filesystem import watcher as watching
from tests.support.pipelines.folder_connector import FolderHarness


class Limited:
    """watchfiles with room for a few folders only: it leaves out the others without a word."""

    room = 3

    def __init__(self, paths: list[str], *rest: Any) -> None:
        self._inner = RustNotify(sorted(paths)[: self.room], *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


RustNotify = watching.RustNotify


async def test_folders_beyond_the_limit_are_scanned_and_told_until_it_is_raised(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "RustNotify", Limited)
    monkeypatch.setattr(Limited, "room", 3)
    for n in range(8):
        folders.write(f"{n}/{n}/a.md", "a")
    async with folders.running(reconcile_interval_s=3) as connector:
        state, detail = folders.health[-1]
        assert state == "ok"
        assert "14 of 17 folders are not watched" in str(detail)
        assert "sysctl fs.inotify.max_user_watches=" in str(detail)
        folders.write("7/7/a.md", "b")
        folders.write("6/new/deep/a.md", "c")
        await folders.intake.until(
            lambda now: now["docs/7/7/a.md"] == b"b" and "docs/6/new/deep/a.md" in now
        )
        (folders.root / "5" / "5" / "a.md").unlink()
        await folders.intake.until(lambda now: "docs/5/5/a.md" not in now)
        monkeypatch.setattr(Limited, "room", 100)
        await folders.until_health("ok", None)
        assert connector._following.watcher is not None
        assert not connector._following.watcher.refused


async def test_a_system_without_any_watch_is_scanned_and_told(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> None:
        raise watching.WatchfilesRustInternalError(
            "Error creating recommended watcher: Too many open files (os error 24)"
        )

    monkeypatch.setattr(watching, "RustNotify", none)
    folders.write("a.md", "a")
    async with folders.running():
        assert folders.health[-1][0] == "down"
        assert "sysctl fs.inotify.max_user_instances=" in str(folders.health[-1][1])
        folders.write("a.md", "b")
        await folders.intake.until(lambda now: now.get("docs/a.md") == b"b")
        monkeypatch.undo()
        await folders.until_health("ok", None)
