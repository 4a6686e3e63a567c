"""Scans of a folder: what changed while nobody watched, and what must not be taken for a change."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from connectors.filesystem import FolderConnector, disk, walking
from connectors.filesystem.reconciling import Report
from connectors.filesystem.watching import Watcher
from pipeline.errors import OutageError
from pipeline.model import GenerationId
from pipeline.store.database import Database
from pipeline.store.statements import all_statements
from tests.folders import Folders

NOBODY = 65_534


@pytest.fixture
def folders(database: Database, tmp_path: Path) -> Folders:
    (tmp_path / "docs").mkdir()
    return Folders(database, tmp_path / "docs")


async def scan(folders: Folders, connector: FolderConnector | None = None, **how: bool) -> Report:
    """One reconcile of a connector that does not run, once the files are old enough to be at rest."""
    await asyncio.sleep(0.03)
    return await (connector or folders.connector()).reconcile(**how)


def counts(report: Report) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.deleted, report.unchanged


@contextmanager
def no_content_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("a content was read")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "read", read)
        yield


async def test_the_first_scan_publishes_all_and_the_next_ones_nothing_without_reading(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(450):
        folders.write(f"{n % 7}/{n}.md", str(n))
    assert counts(await scan(folders)) == (450, 0, 0, 0)
    assert folders.intake.now == folders.on_disk()
    with no_content_read(monkeypatch):
        assert counts(await scan(folders)) == (0, 0, 0, 450)
        assert counts(await scan(folders)) == (0, 0, 0, 450)
    assert len(folders.intake.changes) == 450


async def test_a_scan_in_many_blocks_finds_the_same(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "BLOCK_FILES", 3)
    names = ["a.md", "a/1.md", "a/b/2.md", "a-/3.md", "a0.md", "a!.md", "b/c.md", "b/c/d.md", "b.md", "ä/x.md", "z.md"]
    for name in names:
        folders.write(name, name)
    assert counts(await scan(folders)) == (len(names), 0, 0, 0)
    assert counts(await scan(folders)) == (0, 0, 0, len(names))
    shutil.rmtree(folders.root / "a")
    (folders.root / "z.md").unlink()
    folders.write("a/new.md", "new")
    assert counts(await scan(folders)) == (1, 0, 3, len(names) - 3)
    assert folders.intake.now == folders.on_disk()


async def test_what_changed_while_it_was_down_is_published_and_nothing_else(folders: Folders) -> None:
    for n in range(5):
        folders.write(f"{n}.md", str(n))
    async with folders.running():
        await folders.intake.until(lambda now: len(now) == 5)
    published = len(folders.intake.changes)
    (folders.root / "0.md").unlink()
    folders.write("1.md", "edited")
    folders.write("5.md", "added")
    async with folders.running():
        await folders.intake.until(lambda now: now == folders.on_disk())
        await asyncio.sleep(0.2)
    assert len(folders.intake.changes) == published + 3


async def test_what_changes_between_the_scan_and_the_watch_is_seen(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch is armed before the scan begins: a write right after the scan is hinted at."""
    scanned: list[str] = []
    watch = Watcher.watch

    async def armed(self: Watcher, folders_: object) -> None:
        await watch(self, folders_)  # type: ignore[arg-type]
        scanned.append("armed")

    monkeypatch.setattr(Watcher, "watch", armed)
    folders.write("a.md", "one")
    async with folders.running():
        assert scanned[0] == "armed"
        folders.write("b.md", "two")
        await folders.intake.until(lambda now: now == folders.on_disk())


async def test_a_reconcile_finds_exactly_what_was_never_hinted_at(folders: Folders) -> None:
    for n in range(60):
        folders.write(f"old/{n}.md", str(n))
    async with folders.running() as connector:
        await folders.intake.until(lambda now: len(now) == 60)
        connector._hints.take = lambda paths: None  # type: ignore[method-assign]
        connector._following.watcher._on_hints = lambda paths: None  # type: ignore[union-attr]
        for n in range(3_000):
            (folders.root / f"new-{n}.md").write_text(str(n))
        for n in range(25):
            (folders.root / f"old/{n}.md").unlink()
        published = len(folders.intake.changes)
        await asyncio.sleep(0.1)
        assert len(folders.intake.changes) == published, "no hint has come"
        report = await connector.reconcile()
        assert counts(report) == (3_000, 0, 25, 35)
        assert folders.intake.now == folders.on_disk()
        assert counts(await connector.reconcile()) == (0, 0, 0, 3_035)
        assert len(folders.intake.changes) == published + 3_025


async def test_a_reconcile_runs_by_itself_now_and_then(folders: Folders) -> None:
    async with folders.running(reconcile_interval_s=0.3) as connector:
        connector._following.watcher._on_hints = lambda paths: None  # type: ignore[union-attr]
        folders.write("a.md", "one")
        await folders.intake.until(lambda now: now == {"docs/a.md": b"one"})


async def test_a_reconcile_includes_what_is_still_settling(folders: Folders) -> None:
    for is_running in (False, True):
        async with folders.running() as connector:
            chosen = connector if is_running else folders.connector()
            (folders.root / "a.md").write_text(f"just now {is_running}")
            await chosen.reconcile()
            assert folders.intake.now == {"docs/a.md": f"just now {is_running}".encode()}


async def test_a_touched_file_is_read_once_and_not_published(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folders.write("a.md", "one")
    await scan(folders)
    path.touch()
    path.chmod(0o600)
    assert counts(await scan(folders)) == (0, 0, 0, 1)
    with no_content_read(monkeypatch):
        await scan(folders)
    assert folders.intake.versions("docs/a.md") == [b"one"]


async def test_a_change_of_the_same_size_and_time_is_seen(folders: Folders) -> None:
    path = folders.write("a.md", "one")
    before = path.stat()
    await scan(folders)
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    await scan(folders)
    assert folders.intake.now == {"docs/a.md": b"two"}


async def test_changed_settings_of_the_source_are_published_for_every_document(folders: Folders) -> None:
    folders.write("a.md", "one")
    await scan(folders)
    tagged = {"metadata": {"tags": ["hr-only"]}, "collection": "people"}
    report = await scan(folders, folders.connector(source=tagged))
    assert report.changed == 1
    data = folders.intake.changes[-1].data
    assert (data.metadata, data.collection) == ({"tags": ["hr-only"]}, "people")
    assert counts(await scan(folders, folders.connector(source=tagged))) == (0, 0, 0, 1)


async def test_a_file_carries_where_it_is_and_when_it_changed(folders: Folders) -> None:
    path = folders.write("sub/ü b.md", "one")
    await scan(folders)
    data = folders.intake.changes[-1].data
    assert (data.name, data.source, data.tenant_id) == ("ü b.md", "docs", "default")
    assert data.uri == path.as_uri()
    assert data.changed_at is not None
    assert abs(data.changed_at.timestamp() - path.stat().st_mtime) < 0.001


async def test_a_file_of_the_year_of_no_calendar_is_published(folders: Folders) -> None:
    os.utime(folders.write("a.md", "one"), (2**40, 2**40))
    await scan(folders)
    assert folders.intake.now == {"docs/a.md": b"one"}


async def test_globs_decide_and_what_they_leave_out_is_deleted_however_much_it_is(folders: Folders) -> None:
    for n in range(30):
        folders.write(f"drafts/{n}.md", str(n))
    folders.write("a.txt", "text")
    folders.write("b.md", "markdown")
    assert (await scan(folders)).added == 32
    source = {"include": ("**/*.md",), "exclude": ("**/drafts/**",)}
    report = await scan(folders, folders.connector(source=source))
    assert (report.deleted, report.withheld) == (31, 0)
    assert set(folders.intake.now) == {"docs/b.md"}


async def test_the_data_directory_is_no_part_of_the_folder(folders: Folders) -> None:
    folders.write("data/x.md", "never")
    folders.write("a.md", "one")
    await scan(folders, folders.connector(ignored=[folders.root / "data"]))
    assert set(folders.intake.now) == {"docs/a.md"}


async def test_a_missing_root_deletes_nothing(folders: Folders) -> None:
    for n in range(5):
        folders.write(f"{n}.md", str(n))
    await scan(folders)
    away = folders.root.rename(folders.root.with_name("away"))
    report = await scan(folders)
    assert report.problem
    assert report.deleted == 0
    away.rename(folders.root)
    assert counts(await scan(folders)) == (0, 0, 0, 5)


async def test_more_deletes_than_the_limit_are_withheld_until_they_are_released(folders: Folders) -> None:
    for n in range(40):
        folders.write(f"{n}.md", str(n))
    connector = folders.connector()
    await scan(folders, connector)
    for n in range(21):
        (folders.root / f"{n}.md").unlink()
    for _ in range(2):
        report = await scan(folders, connector)
        assert (report.withheld, report.deleted, report.known) == (21, 0, 40)
    assert "livedex verify --repair" in str(report.advice)
    assert folders.health[-1] == ("down", report.advice)
    assert len(folders.intake.now) == 40
    report = await scan(folders, connector, repair=True)
    assert (report.withheld, report.deleted) == (0, 21)
    assert folders.intake.now == folders.on_disk()
    assert folders.health[-1] == ("ok", None)


async def test_half_of_the_files_and_all_of_a_few_may_go_at_once(folders: Folders) -> None:
    for n in range(40):
        folders.write(f"{n}.md", str(n))
    await scan(folders)
    for n in range(20):
        (folders.root / f"{n}.md").unlink()
    assert (await scan(folders)).deleted == 20
    (folders.root / "39.md").unlink()
    await scan(folders)
    for path in folders.root.iterdir():
        path.unlink()
    assert (await scan(folders)).deleted == 19


async def test_a_moved_directory_that_holds_most_files_is_no_mass_delete(folders: Folders) -> None:
    for n in range(40):
        folders.write(f"dir/{n}.md", str(n))
    await scan(folders)
    (folders.root / "dir").rename(folders.root / "moved")
    report = await scan(folders)
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


async def test_a_closed_folder_is_not_taken_for_empty(folders: Folders) -> None:
    for n in range(20):
        folders.write(f"closed/{n}.md", str(n))
    folders.write("open.md", "open")
    await scan(folders)
    (folders.root / "closed").chmod(0)
    with as_nobody(folders.root):
        report = await scan(folders)
    assert (report.deleted, report.withheld, report.unreadable, report.unchanged) == (0, 0, 20, 1)
    assert len(folders.intake.now) == 21
    (folders.root / "closed").chmod(0o755)
    assert counts(await scan(folders)) == (0, 0, 0, 21)


async def test_a_file_that_may_not_be_read_says_so_once_and_is_read_when_it_may(folders: Folders) -> None:
    path = folders.write("a.md", "one")
    await scan(folders)
    path.chmod(0)
    path.write_text("two") if os.geteuid() == 0 else None
    with as_nobody(folders.root):
        for _ in range(2):
            assert (await scan(folders)).unreadable == 1
    told = [change.data.unreadable for change in folders.intake.changes if change.data.unreadable]
    assert len(told) == 1
    assert "Permission denied" in told[0]
    path.chmod(0o644)
    await scan(folders)
    assert folders.intake.versions("docs/a.md")[-1] == path.read_bytes()
    assert counts(await scan(folders)) == (0, 0, 0, 1)


async def test_a_file_that_is_too_large_is_not_read_and_read_when_it_is_allowed(folders: Folders) -> None:
    folders.write("a.md", "x" * 100)
    small = {"max_document_bytes": 99}
    for _ in range(2):
        await scan(folders, folders.connector(**small))
    (change,) = folders.intake.changes
    assert (change.content, change.data.size_bytes, change.data.unreadable) == (None, 100, None)
    await scan(folders)
    assert folders.intake.now == {"docs/a.md": b"x" * 100}
    await scan(folders, folders.connector(**small))
    assert folders.intake.now == {"docs/a.md": b"too large"}


async def test_a_path_that_is_too_long_for_an_id_stops_nothing(folders: Folders) -> None:
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
    await scan(folders)
    assert folders.intake.now == {"docs/a.md": b"one"}


async def test_a_crash_between_publishing_and_recording_loses_nothing(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.write("a.md", "one")
    connector = folders.connector()

    async def crash(files: object) -> None:
        raise OutageError("database", "away")

    monkeypatch.setattr(connector._scanner.ledger, "record", crash)
    with pytest.raises(OutageError):
        await scan(folders, connector)
    assert (await scan(folders)).added == 1
    assert folders.intake.versions("docs/a.md") == [b"one", b"one"]


async def test_a_broker_that_is_away_at_the_start_is_waited_for(folders: Folders) -> None:
    folders.write("a.md", "one")
    await asyncio.sleep(0.03)
    folders.intake.outages = 2
    async with folders.running():
        assert folders.intake.now == {"docs/a.md": b"one"}


async def insert_document(owner: asyncpg.Connection, document_id: str, version: int, **columns: object) -> None:
    columns = {"tenant_id": "default", "document_id": document_id, "source": "docs", "state": "synced", "version": version, **columns}
    names, places = ", ".join(columns), ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    await owner.execute(f"insert into documents ({names}) values ({places})", *columns.values())


async def test_a_version_exceeds_every_version_the_index_has_seen(folders: Folders, owner: asyncpg.Connection) -> None:
    far = time.time_ns() + 10**18
    await insert_document(owner, "docs/tombstone.md", far, state="deleted")
    await insert_document(owner, "docs/pending.md", 5, pending_version=far, pending_digest=b"\0")
    await insert_document(owner, "docs/dead.md", 5, dead_version=far)
    for name in ("tombstone", "pending", "dead"):
        folders.write(f"{name}.md", name)
    await scan(folders)
    assert [change.data.version for change in folders.intake.changes] == [far + 1] * 3


async def test_documents_cut_in_another_way_are_published_anew(folders: Folders, owner: asyncpg.Connection) -> None:
    columns = {
        "old": {"cut": "1/900/0"},
        "new": {"cut": "1/600/0"},
        "empty": {"cut": "1/900/0", "state": "empty"},
        "model": {"cut": "1/600/0", "generation_id": 1},
    }
    for name in columns:
        folders.write(f"{name}.md", name)
    await scan(folders)
    versions = {change.data.document_id: change.data.version for change in folders.intake.changes}
    for name, more in columns.items():
        await insert_document(owner, f"docs/{name}.md", versions[f"docs/{name}.md"], **more)
    published = len(folders.intake.changes)
    report = await scan(folders, folders.connector(cut="1/600/0", generation=GenerationId(2)))
    assert counts(report) == (0, 2, 0, 2)
    assert {c.data.document_id for c in folders.intake.changes[published:]} == {"docs/old.md", "docs/model.md"}
    assert all(c.content is not None for c in folders.intake.changes[published:])


async def test_a_document_that_no_file_stands_for_is_deleted(folders: Folders, owner: asyncpg.Connection) -> None:
    await insert_document(owner, "docs/stray.md", 5)
    await insert_document(owner, "docs/of-the-api.md", 5, source="")
    await insert_document(owner, "docs/tombstone.md", 5, state="deleted")
    folders.write("a.md", "one")
    assert counts(await scan(folders)) == (1, 0, 1, 0)
    assert folders.intake.versions("docs/stray.md") == [None]


async def test_what_the_index_has_lost_is_published_when_asked_to_repair(folders: Folders, owner: asyncpg.Connection) -> None:
    for name in ("kept", "lost", "deleted-by-hand"):
        folders.write(f"{name}.md", name)
    await scan(folders)
    versions = {change.data.document_id: change.data.version for change in folders.intake.changes}
    await insert_document(owner, "docs/kept.md", versions["docs/kept.md"])
    await insert_document(owner, "docs/deleted-by-hand.md", versions["docs/deleted-by-hand.md"] + 1, state="deleted")
    assert counts(await scan(folders)) == (0, 0, 0, 3)
    compared = await folders.connector().compare(index=True)
    assert [(d.kind, d.document_id) for d in compared.differences] == [("changed", "docs/lost.md")]
    assert (await scan(folders, repair=True)).changed == 1
    assert folders.intake.versions("docs/lost.md") == [b"lost", b"lost"]


async def test_a_comparison_names_every_difference_and_publishes_nothing(folders: Folders) -> None:
    for name in ("same", "touched", "edited", "moved", "deleted"):
        folders.write(f"{name}.md", name)
    await scan(folders)
    published = len(folders.intake.changes)
    (folders.root / "touched.md").touch()
    folders.write("edited.md", "another text")
    (folders.root / "moved.md").rename(folders.root / "renamed.md")
    (folders.root / "deleted.md").unlink()
    folders.write("new.md", "new")
    folders.write("copy.md", "same")
    compared = await folders.connector().compare()
    told = {(d.kind, d.document_id, d.before) for d in compared.differences}
    assert told == {
        ("changed", "docs/edited.md", None),
        ("moved", "docs/renamed.md", "docs/moved.md"),
        ("deleted", "docs/deleted.md", None),
        ("added", "docs/new.md", None),
        ("added", "docs/copy.md", None),
    }
    assert compared.unchanged == 2
    read = {d.document_id: await compared.read(d) for d in compared.differences}
    assert read["docs/edited.md"] == b"another text"
    assert read["docs/deleted.md"] is None
    assert len(folders.intake.changes) == published


async def test_a_comparison_with_a_folder_that_is_away_is_an_outage_of_the_source(folders: Folders) -> None:
    folders.write("a.md", "one")
    await scan(folders)
    shutil.rmtree(folders.root)
    with pytest.raises(OutageError, match="No such file"):
        await folders.connector().compare()


async def test_folders_of_several_tenants_and_sources_stay_apart(folders: Folders, tmp_path: Path) -> None:
    folders.write("a.md", "one")
    await scan(folders)
    for name, tenant in itertools.product(("docs", "other"), ("acme", "default")):
        if (name, tenant) != ("docs", "default"):
            report = await scan(folders, folders.connector(source={"name": name, "tenant": tenant}))
            assert counts(report) == (1, 0, 0, 0)


async def test_every_statement_of_the_ledger_is_accepted_by_the_database(owner: asyncpg.Connection) -> None:
    ours = ("known_files", "files_between", "files_below", "record_files", "stray_documents")
    for name in ours:
        await owner.prepare(all_statements()[name])
