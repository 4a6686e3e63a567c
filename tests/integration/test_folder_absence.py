"""Scans of a folder: what is away, closed, too large or too long, and must not be taken for a
delete.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedex.connectors.filesystem.watcher import Watcher
from tests.support.pipelines.folder_connector import FolderHarness, counts, scan_once

NOBODY = 65_534


async def test_a_missing_root_deletes_nothing(folders: FolderHarness) -> None:
    for n in range(5):
        folders.write(f"{n}.md", str(n))
    await scan_once(folders)
    away = folders.root.rename(folders.root.with_name("away"))
    report = await scan_once(folders)
    assert report.problem
    assert report.deleted == 0
    away.rename(folders.root)
    assert counts(await scan_once(folders)) == (0, 0, 0, 5)


async def test_more_deletes_than_the_limit_are_withheld_until_they_are_released(
    folders: FolderHarness,
) -> None:
    for n in range(40):
        folders.write(f"{n}.md", str(n))
    connector = folders.connector()
    await scan_once(folders, connector)
    for n in range(21):
        (folders.root / f"{n}.md").unlink()
    for _ in range(2):
        report = await scan_once(folders, connector)
        assert (report.withheld, report.deleted, report.known) == (21, 0, 40)
    assert "livedex verify --repair" in str(report.operator_message)
    assert folders.health[-1] == ("down", report.operator_message)
    assert len(folders.intake.now) == 40
    report = await scan_once(folders, connector, repair=True)
    assert (report.withheld, report.deleted) == (0, 21)
    assert folders.intake.now == folders.on_disk()
    assert folders.health[-1] == ("ok", None)


async def test_half_of_the_files_and_all_of_a_few_may_go_at_once(folders: FolderHarness) -> None:
    for n in range(40):
        folders.write(f"{n}.md", str(n))
    await scan_once(folders)
    for n in range(20):
        (folders.root / f"{n}.md").unlink()
    assert (await scan_once(folders)).deleted == 20
    (folders.root / "39.md").unlink()
    await scan_once(folders)
    for path in folders.root.iterdir():
        path.unlink()
    assert (await scan_once(folders)).deleted == 19


async def test_a_moved_directory_that_holds_most_files_is_no_mass_delete(
    folders: FolderHarness,
) -> None:
    for n in range(40):
        folders.write(f"dir/{n}.md", str(n))
    await scan_once(folders)
    (folders.root / "dir").rename(folders.root / "moved")
    report = await scan_once(folders)
    assert (report.added, report.deleted, report.moved, report.withheld) == (40, 40, 40, 0)
    assert folders.intake.now == folders.on_disk()


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """As a user that permissions apply to; root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    for above in (folder, *folder.parents):
        above.chmod(above.stat().st_mode | 0o011)
    os.chown(folder, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_closed_folder_is_not_taken_for_empty(folders: FolderHarness) -> None:
    for n in range(20):
        folders.write(f"closed/{n}.md", str(n))
    folders.write("open.md", "open")
    await scan_once(folders)
    (folders.root / "closed").chmod(0)
    with as_nobody(folders.root):
        report = await scan_once(folders)
    assert (report.deleted, report.withheld, report.unreadable, report.unchanged) == (0, 0, 20, 1)
    assert len(folders.intake.now) == 21
    (folders.root / "closed").chmod(0o755)
    assert counts(await scan_once(folders)) == (0, 0, 0, 21)


async def test_a_file_that_may_not_be_read_says_so_once_and_is_read_when_it_may(
    folders: FolderHarness,
) -> None:
    path = folders.write("a.md", "one")
    await scan_once(folders)
    path.chmod(0)
    path.write_text("two") if os.geteuid() == 0 else None
    with as_nobody(folders.root):
        for _ in range(2):
            assert (await scan_once(folders)).unreadable == 1
    told = [change.data.unreadable for change in folders.intake.changes if change.data.unreadable]
    assert len(told) == 1
    assert "Permission denied" in told[0]
    path.chmod(0o644)
    await scan_once(folders)
    assert folders.intake.versions("docs/a.md")[-1] == path.read_bytes()
    assert counts(await scan_once(folders)) == (0, 0, 0, 1)


async def test_a_file_that_is_too_large_is_not_read_and_read_when_it_is_allowed(
    folders: FolderHarness,
) -> None:
    folders.write("a.md", "x" * 100)
    small = {"max_document_bytes": 99}
    for _ in range(2):
        await scan_once(folders, folders.connector(**small))
    (change,) = folders.intake.changes
    assert (change.content, change.data.size_bytes, change.data.unreadable) == (None, 100, None)
    await scan_once(folders)
    assert folders.intake.now == {"docs/a.md": b"x" * 100}
    await scan_once(folders, folders.connector(**small))
    assert folders.intake.now == {"docs/a.md": b"too large"}


async def test_a_path_that_is_too_long_for_an_id_stops_nothing(folders: FolderHarness) -> None:
    here = os.open(folders.root, os.O_DIRECTORY)
    for _ in range(10):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    file = os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.close(file)
    os.close(here)
    folders.write("a.md", "one")
    await scan_once(folders)
    assert folders.intake.now == {"docs/a.md": b"one"}


async def test_deletes_that_the_system_told_of_are_not_withheld_by_a_scan_that_comes_first(
    folders: FolderHarness,
) -> None:
    """Somebody removes most files and asks for a look at once, while the hints are still on their
    way or being dealt with.
    """
    for n in range(600):
        folders.write(f"{'d/' * (n % 2)}{n}.md", str(n))
    async with folders.running() as connector:
        assert len(folders.intake.now) == 600
        shutil.rmtree(folders.root / "d")
        for n in range(0, 400, 2):
            (folders.root / f"{n}.md").unlink()
        report = await connector.reconcile()
        assert (report.withheld, report.operator_message) == (0, None)
        assert folders.intake.now == folders.on_disk()
        assert ("down", report.operator_message) not in folders.health
        assert folders.health[-1] == ("ok", None)


async def test_deletes_that_the_system_did_not_tell_of_are_withheld_while_the_folder_is_watched(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        folders.write(f"closed/{n}.md", str(n))
    async with folders.running() as connector:
        monkeypatch.setattr(Watcher, "_hand_over", lambda self, changes: None)
        await asyncio.sleep(0.2)  # until the turn that had begun is over
        shutil.rmtree(folders.root / "closed")
        report = await connector.reconcile()
        assert (report.withheld, report.deleted) == (40, 0)
        assert folders.health[-1] == ("down", report.operator_message)


async def test_a_name_that_ends_the_watch_keeps_no_delete_of_its_neighbours_back(
    folders: FolderHarness,
) -> None:
    """A name that is not UTF-8 cannot be told, and takes with it what was to be told of others."""
    for n in range(40):
        folders.write(f"shelf/{'deep/' * (n % 3)}{n}.md", str(n))
    folders.write("stays.md", "stays")
    (folders.root / "shelf" / os.fsdecode(b"dir\xff")).mkdir()
    async with folders.running():
        shutil.rmtree(folders.root / "shelf")
        await folders.intake.until(lambda now: now == {"docs/stays.md": b"stays"})
        await folders.until_health("ok", None)


async def test_a_name_that_ends_the_watch_releases_nothing_that_was_not_deleted_under_it(
    folders: FolderHarness,
) -> None:
    """Neither what was withheld before, nor what is gone from a folder that nobody has touched, as
    with a disk that is no longer there.
    """
    for n in range(40):
        folders.write(f"shelf/{n}.md", str(n))
    await scan_once(folders)
    shelf = folders.root / "shelf"
    shelf.rename(folders.root.with_name("aside"))
    shelf.mkdir()
    async with folders.running() as connector:
        await folders.until_health("down", "40 of 40")
        folders.write("shelf/new.md", "new")
        for name in (b"bad\xff.md", b"bad\xfe.md"):
            (folders.root / os.fsdecode(name)).write_text("bad")
            await folders.intake.until(
                lambda now, name=name: any(text == b"bad" for text in now.values())
            )
        assert (await connector.reconcile()).withheld == 40
    assert len(folders.intake.now) == 43


async def test_what_is_gone_from_a_folder_that_was_not_touched_was_not_deleted(
    folders: FolderHarness,
) -> None:
    for n in range(40):
        folders.write(f"shelf/{n}.md", str(n))
    connector = folders.connector()
    await scan_once(folders, connector)
    shutil.rmtree(folders.root / "shelf")
    (folders.root / "shelf").mkdir()
    os.utime(folders.root / "shelf", (1, 1))
    connector._scanning.lost(time.time_ns() - 10**10)
    assert (await scan_once(folders, connector)).withheld == 40
