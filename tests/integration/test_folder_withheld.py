"""Deletes that were withheld stay so until they are confirmed, whatever comes later; and what lies
below a mount point that is not mounted.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedex.connectors.filesystem import folder as folder_module
from livedex.pipeline.events.event import Changed
from livedex.pipeline.ingest.ingester import Change
from tests.support.pipelines.folder_connector import FolderHarness, counts, scan_once

RECORDED_S = 0.3
"""What was published is in the ledger by then."""


def _write(folders: FolderHarness, first: int, last: int) -> None:
    for n in range(first, last):
        folders.write(f"{n}.md", str(n))


def _remove(folders: FolderHarness, first: int, last: int) -> None:
    for n in range(first, last):
        (folders.root / f"{n}.md").unlink()


async def test_a_withheld_delete_stays_withheld_over_scans_restarts_and_new_files(
    folders: FolderHarness,
) -> None:
    _write(folders, 0, 40)
    await scan_once(folders)
    _remove(folders, 0, 28)
    _write(folders, 40, 68)
    assert (await scan_once(folders)).withheld == 28
    for _ in range(2):  # each is a restart
        report = await scan_once(folders)
        assert (report.withheld, report.deleted) == (28, 0)
    connector = folders.connector()
    for _ in range(2):
        assert (await scan_once(folders, connector)).withheld == 28
    assert len(folders.intake.now) == 68
    async with folders.running():
        (folders.root / "60.md").unlink()  # what is seen to go goes, beside what is withheld
        await folders.intake.until(lambda now: "docs/60.md" not in now)
        await asyncio.sleep(RECORDED_S)
    assert len(folders.intake.now) == 67
    folders.write("3.md", "3")
    folders.write("4.md", "another")
    report = await scan_once(folders)
    assert (report.withheld, report.deleted) == (26, 0)
    assert folders.intake.now["docs/4.md"] == b"another"
    (folders.root / "3.md").unlink()  # it came back, and so it is one file that goes
    report = await scan_once(folders)
    assert (report.withheld, report.deleted) == (26, 1)
    await folders.connector()._scanner.ledger.withheld.confirm_deletes()
    report = await scan_once(folders)
    assert (report.withheld, report.deleted) == (0, 26)
    assert folders.intake.now == folders.on_disk()


async def test_hints_carry_out_no_withheld_delete(folders: FolderHarness) -> None:
    for n in range(40):
        folders.write(f"sub/{n}.md", str(n))
    await scan_once(folders)
    away = (folders.root / "sub").rename(folders.root.with_name("away"))
    (folders.root / "sub").mkdir()
    assert (await scan_once(folders)).withheld == 40
    async with folders.running():
        (folders.root / "sub").rmdir()
        folders.write("new.md", "new")
        await folders.intake.until(lambda now: "docs/new.md" in now)
        (folders.root / "sub").mkdir()
        folders.write("sub/other.md", "other")
        await folders.intake.until(lambda now: "docs/sub/other.md" in now)
        await asyncio.sleep(RECORDED_S)
    assert len(folders.intake.now) == 42
    (folders.root / "sub" / "other.md").unlink()
    (folders.root / "sub").rmdir()
    away.rename(folders.root / "sub")
    report = await scan_once(folders)
    assert (report.withheld, len(folders.intake.now)) == (0, 41)


async def test_few_files_of_a_folder_that_is_another_one_after_a_restart_are_kept(
    folders: FolderHarness,
) -> None:
    _write(folders, 0, 5)
    await scan_once(folders)
    away = folders.root.rename(folders.root.with_name("away"))
    folders.root.mkdir()
    for _ in range(2):
        report = await scan_once(folders)
        assert (report.withheld, report.deleted) == (5, 0)
    folders.root.rmdir()
    away.rename(folders.root)
    assert counts(await scan_once(folders)) == (0, 0, 0, 5)


@contextmanager
def mounted(on: Path) -> Iterator[None]:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "tmpfs", str(on)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("this process may not mount anything")
    try:
        yield
    finally:
        subprocess.run(["umount", str(on)], check=True)


@pytest.mark.parametrize("is_removed", [False, True])
async def test_what_lay_on_a_disk_below_the_folder_stays_while_the_disk_is_not_mounted(
    folders: FolderHarness, is_removed: bool
) -> None:
    _write(folders, 0, 30)
    disk = folders.root / "disk"
    disk.mkdir()
    with mounted(disk):
        _write_below(folders, 3)
        await scan_once(folders)
        assert len(folders.intake.now) == 33
    if is_removed:
        disk.rmdir()
    for _ in range(2):
        report = await scan_once(folders)
        assert (report.withheld, report.deleted) == (3, 0)
        assert "disk is not mounted" in str(report.operator_message)
    async with folders.running():
        folders.write("new.md", "new")
        await folders.intake.until(lambda now: "docs/new.md" in now)
        await asyncio.sleep(RECORDED_S)
    assert len(folders.intake.now) == 34
    disk.mkdir(exist_ok=True)
    with mounted(disk):
        _write_below(folders, 2)
        report = await scan_once(folders)
        assert report.withheld == 1
    report = await scan_once(folders, repair=True)
    assert report.withheld == 0
    assert folders.intake.now == folders.on_disk()
    report = await scan_once(folders)
    assert (report.withheld, report.unmounted) == (0, [])


def _write_below(folders: FolderHarness, number: int) -> None:
    for n in range(number):
        folders.write(f"disk/{n}.md", f"disk {n}")


async def test_a_file_that_raises_an_error_nobody_foresaw_stops_no_other(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = folder_module.Folder.changed

    def changed(self: folder_module.Folder, path: bytes, version: int, **rest: object) -> Changed:
        if path.startswith(b"bad"):
            raise RuntimeError("of this file")
        return real(self, path, version, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(folder_module.Folder, "changed", changed)
    monkeypatch.setattr("livedex.connectors.filesystem.file_publisher.FAILED_RETRY_S", 0.2)
    _write(folders, 0, 7)
    folders.write("bad.md", "x")
    folders.write("bad2.md", "x")
    report = await scan_once(folders)
    assert set(report.failed) == {b"bad.md", b"bad2.md"}
    assert len(folders.intake.now) == 7
    assert folders.health[-1][0] == "down"
    assert "bad.md: it cannot be published (RuntimeError)" in str(folders.health[-1][1])
    async with folders.running():
        folders.write("bad.md", "y")
        folders.write("good.md", "y")
        await folders.intake.until(lambda now: "docs/good.md" in now)
        monkeypatch.undo()
        # tried again by itself
        await folders.intake.until(lambda now: {"docs/bad.md", "docs/bad2.md"} <= set(now))
        await folders.until_health("ok", None)
        await asyncio.sleep(RECORDED_S)
    report = await scan_once(folders)
    assert not report.failed
    assert folders.intake.now == folders.on_disk()
    assert folders.health[-1] == ("ok", None)


async def test_a_document_of_the_greatest_version_stops_no_other_and_can_be_deleted(
    folders: FolderHarness,
) -> None:
    folders.write("a.md", "a")
    folders.write("b.md", "b")
    await scan_once(folders)
    async with folders.database.tenant("default", "test") as connection:  # type: ignore[arg-type]
        await connection.execute(
            "update source_files set version = 9223372036854775807 where path = 'a.md'"
        )
    for name in ("a.md", "b.md", "c.md"):
        folders.write(name, "other")
    report = await scan_once(folders)
    assert "greatest version" in str(report.operator_message)
    assert folders.intake.now == {"docs/a.md": b"a", "docs/b.md": b"other", "docs/c.md": b"other"}
    (folders.root / "a.md").unlink()
    report = await scan_once(folders)
    assert (report.deleted, report.failed) == (1, {})
    assert folders.intake.changes[-1].data.version == 9223372036854775807


def _deletes(changes: list[Change]) -> list[str]:
    return [change.data.document_id for change in changes if change.data.deleted]


async def test_a_renamed_source_gives_its_documents_new_ids_as_the_old_ones_go(
    folders: FolderHarness,
) -> None:
    from livedex.pipeline.model import TenantId
    from livedex.pipeline.store.source_store import SourceStore

    _write(folders, 0, 40)
    await scan_once(folders)
    _remove(folders, 38, 40)
    folders.write("new.md", "new")
    before = len(folders.intake.changes)
    await SourceStore(folders.database).rename(TenantId("default"), "docs", "papers")
    report = await scan_once(folders, folders.connector(source={"name": "papers"}))
    assert counts(report) == (1, 38, 2, 0)
    assert set(folders.intake.now) == {f"papers/{n}.md" for n in range(38)} | {"papers/new.md"}
    for first, second in zip(
        folders.intake.changes[before:], folders.intake.changes[before + 1 :], strict=False
    ):
        if second.data.document_id.startswith("docs/") and second.data.document_id not in (
            "docs/38.md",
            "docs/39.md",
        ):
            # together, so never long both
            assert first.data.document_id == "papers/" + second.data.document_id.removeprefix(
                "docs/"
            )
    assert counts(await scan_once(folders, folders.connector(source={"name": "papers"}))) == (
        0,
        0,
        0,
        39,
    )
    assert len(_deletes(folders.intake.changes)) == 42
