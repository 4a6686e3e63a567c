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

from livedex.connectors.filesystem import folder_scanner as walking
from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.watcher import Watcher
from livedex.pipeline.errors import OutageError
from livedex.pipeline.model import GenerationId
from livedex.pipeline.store.postgres.statements import all_statements
from tests.support.pipelines.folder_connector import FolderHarness, counts, scan_once


@contextmanager
def no_content_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("a content was read")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "read_file", read)
        yield


async def test_the_first_scan_publishes_all_and_the_next_ones_nothing_without_reading(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(450):
        folders.write(f"{n % 7}/{n}.md", str(n))
    assert counts(await scan_once(folders)) == (450, 0, 0, 0)
    assert folders.intake.now == folders.on_disk()
    with no_content_read(monkeypatch):
        assert counts(await scan_once(folders)) == (0, 0, 0, 450)
        assert counts(await scan_once(folders)) == (0, 0, 0, 450)
    assert len(folders.intake.changes) == 450


async def test_a_scan_in_many_blocks_finds_the_same(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walking, "BATCH_FILES", 3)
    names = [
        "a.md",
        "a/1.md",
        "a/b/2.md",
        "a-/3.md",
        "a0.md",
        "a!.md",
        "b/c.md",
        "b/c/d.md",
        "b.md",
        "ä/x.md",
        "z.md",
    ]
    for name in names:
        folders.write(name, name)
    assert counts(await scan_once(folders)) == (len(names), 0, 0, 0)
    assert counts(await scan_once(folders)) == (0, 0, 0, len(names))
    shutil.rmtree(folders.root / "a")
    (folders.root / "z.md").unlink()
    folders.write("a/new.md", "new")
    assert counts(await scan_once(folders)) == (1, 0, 3, len(names) - 3)
    assert folders.intake.now == folders.on_disk()


async def test_what_changed_while_it_was_down_is_published_and_nothing_else(
    folders: FolderHarness,
) -> None:
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


async def test_what_changes_between_the_scan_and_the_watch_is_seen(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_reconcile_finds_exactly_what_was_never_hinted_at(folders: FolderHarness) -> None:
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


async def test_a_reconcile_runs_by_itself_now_and_then(folders: FolderHarness) -> None:
    async with folders.running(reconcile_interval_s=0.3) as connector:
        connector._following.watcher._on_hints = lambda paths: None  # type: ignore[union-attr]
        folders.write("a.md", "one")
        await folders.intake.until(lambda now: now == {"docs/a.md": b"one"})


async def test_a_reconcile_includes_what_is_still_settling(folders: FolderHarness) -> None:
    for is_running in (False, True):
        async with folders.running() as connector:
            chosen = connector if is_running else folders.connector()
            (folders.root / "a.md").write_text(f"just now {is_running}")
            await chosen.reconcile()
            assert folders.intake.now == {"docs/a.md": f"just now {is_running}".encode()}


async def test_a_touched_file_is_read_once_and_not_published(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folders.write("a.md", "one")
    await scan_once(folders)
    path.touch()
    path.chmod(0o600)
    assert counts(await scan_once(folders)) == (0, 0, 0, 1)
    with no_content_read(monkeypatch):
        await scan_once(folders)
    assert folders.intake.versions("docs/a.md") == [b"one"]


async def test_a_change_of_the_same_size_and_time_is_seen(folders: FolderHarness) -> None:
    path = folders.write("a.md", "one")
    before = path.stat()
    await scan_once(folders)
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    await scan_once(folders)
    assert folders.intake.now == {"docs/a.md": b"two"}


async def test_changed_settings_of_the_source_are_published_for_every_document(
    folders: FolderHarness,
) -> None:
    folders.write("a.md", "one")
    await scan_once(folders)
    tagged = {"metadata": {"tags": ["hr-only"]}, "collection": "people"}
    report = await scan_once(folders, folders.connector(source=tagged))
    assert report.changed == 1
    data = folders.intake.changes[-1].data
    assert (data.metadata, data.collection) == ({"tags": ["hr-only"]}, "people")
    assert counts(await scan_once(folders, folders.connector(source=tagged))) == (0, 0, 0, 1)


async def test_a_file_carries_where_it_is_and_when_it_changed(folders: FolderHarness) -> None:
    path = folders.write("sub/ü b.md", "one")
    await scan_once(folders)
    data = folders.intake.changes[-1].data
    assert (data.name, data.source, data.tenant_id) == ("ü b.md", "docs", "default")
    assert data.uri == path.as_uri()
    assert data.changed_at is not None
    assert abs(data.changed_at.timestamp() - path.stat().st_mtime) < 0.001


async def test_a_file_of_the_year_of_no_calendar_is_published(folders: FolderHarness) -> None:
    os.utime(folders.write("a.md", "one"), (2**40, 2**40))
    await scan_once(folders)
    assert folders.intake.now == {"docs/a.md": b"one"}


async def test_globs_decide_and_what_they_leave_out_is_deleted_however_much_it_is(
    folders: FolderHarness,
) -> None:
    for n in range(30):
        folders.write(f"drafts/{n}.md", str(n))
    folders.write("a.txt", "text")
    folders.write("b.md", "markdown")
    assert (await scan_once(folders)).added == 32
    source = {"include": ("**/*.md",), "exclude": ("**/drafts/**",)}
    report = await scan_once(folders, folders.connector(source=source))
    assert (report.deleted, report.withheld) == (31, 0)
    assert set(folders.intake.now) == {"docs/b.md"}


async def test_the_data_directory_is_no_part_of_the_folder(folders: FolderHarness) -> None:
    folders.write("data/x.md", "never")
    folders.write("a.md", "one")
    await scan_once(folders, folders.connector(ignored=[folders.root / "data"]))
    assert set(folders.intake.now) == {"docs/a.md"}


async def test_a_crash_between_publishing_and_recording_loses_nothing(
    folders: FolderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders.write("a.md", "one")
    connector = folders.connector()

    async def crash(files: object) -> None:
        raise OutageError("database", "away")

    monkeypatch.setattr(connector._scanner.ledger, "record", crash)
    with pytest.raises(OutageError):
        await scan_once(folders, connector)
    assert (await scan_once(folders)).added == 1
    assert folders.intake.versions("docs/a.md") == [b"one", b"one"]


async def test_a_broker_that_is_away_at_the_start_is_waited_for(folders: FolderHarness) -> None:
    folders.write("a.md", "one")
    await asyncio.sleep(0.03)
    folders.intake.outages = 2
    async with folders.running():
        assert folders.intake.now == {"docs/a.md": b"one"}


async def insert_document(
    owner: asyncpg.Connection, document_id: str, version: int, **columns: object
) -> None:
    columns = {
        "tenant_id": "default",
        "document_id": document_id,
        "source": "docs",
        "state": "synced",
        "version": version,
        **columns,
    }
    names, places = ", ".join(columns), ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    await owner.execute(f"insert into documents ({names}) values ({places})", *columns.values())


async def test_a_version_exceeds_every_version_the_index_has_seen(
    folders: FolderHarness, owner: asyncpg.Connection
) -> None:
    far = time.time_ns() + 10**18
    await insert_document(owner, "docs/tombstone.md", far, state="deleted")
    await insert_document(owner, "docs/pending.md", 5, pending_version=far, pending_digest=b"\0")
    await insert_document(owner, "docs/dead.md", 5, dead_version=far)
    for name in ("tombstone", "pending", "dead"):
        folders.write(f"{name}.md", name)
    await scan_once(folders)
    assert [change.data.version for change in folders.intake.changes] == [far + 1] * 3


async def test_documents_cut_in_another_way_are_published_anew(
    folders: FolderHarness, owner: asyncpg.Connection
) -> None:
    columns = {
        "old": {"cut": "1/900/0"},
        "new": {"cut": "1/600/0"},
        "empty": {"cut": "1/900/0", "state": "empty"},
        "model": {"cut": "1/600/0", "generation_id": 1},
    }
    for name in columns:
        folders.write(f"{name}.md", name)
    await scan_once(folders)
    versions = {change.data.document_id: change.data.version for change in folders.intake.changes}
    for name, more in columns.items():
        await insert_document(owner, f"docs/{name}.md", versions[f"docs/{name}.md"], **more)
    published = len(folders.intake.changes)
    report = await scan_once(folders, folders.connector(cut="1/600/0", generation=GenerationId(2)))
    assert counts(report) == (0, 2, 0, 2)
    assert {c.data.document_id for c in folders.intake.changes[published:]} == {
        "docs/old.md",
        "docs/model.md",
    }
    assert all(c.content is not None for c in folders.intake.changes[published:])


async def test_a_document_that_no_file_stands_for_is_deleted(
    folders: FolderHarness, owner: asyncpg.Connection
) -> None:
    await insert_document(owner, "docs/stray.md", 5)
    await insert_document(owner, "docs/of-the-api.md", 5, source="")
    await insert_document(owner, "docs/tombstone.md", 5, state="deleted")
    folders.write("a.md", "one")
    assert counts(await scan_once(folders)) == (1, 0, 1, 0)
    assert folders.intake.versions("docs/stray.md") == [None]


async def test_what_the_index_has_lost_is_published_when_asked_to_repair(
    folders: FolderHarness, owner: asyncpg.Connection
) -> None:
    for name in ("kept", "lost", "deleted-by-others", "written-by-others"):
        folders.write(f"{name}.md", name)
    await scan_once(folders)
    versions = {change.data.document_id: change.data.version for change in folders.intake.changes}
    await insert_document(owner, "docs/kept.md", versions["docs/kept.md"])
    await insert_document(
        owner,
        "docs/deleted-by-others.md",
        versions["docs/deleted-by-others.md"] + 1,
        state="deleted",
    )
    await insert_document(
        owner, "docs/written-by-others.md", versions["docs/written-by-others.md"] + 1, source=""
    )
    assert counts(await scan_once(folders)) == (0, 0, 0, 4)
    compared = await folders.connector().compare(index=True)
    mended = ["docs/deleted-by-others.md", "docs/lost.md", "docs/written-by-others.md"]
    assert [(d.kind, d.document_id) for d in compared.differences] == [
        ("changed", document) for document in mended
    ]
    assert (await scan_once(folders, repair=True)).changed == 3
    for document in mended:
        first, again = folders.intake.versions(document)
        assert first == again


async def test_a_comparison_names_every_difference_and_publishes_nothing(
    folders: FolderHarness,
) -> None:
    for name in ("same", "touched", "edited", "moved", "deleted"):
        folders.write(f"{name}.md", name)
    await scan_once(folders)
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


async def test_a_comparison_with_a_folder_that_is_away_is_an_outage_of_the_source(
    folders: FolderHarness,
) -> None:
    folders.write("a.md", "one")
    await scan_once(folders)
    shutil.rmtree(folders.root)
    with pytest.raises(OutageError, match="No such file"):
        await folders.connector().compare()


async def test_folders_of_several_tenants_and_sources_stay_apart(
    folders: FolderHarness, tmp_path: Path
) -> None:
    folders.write("a.md", "one")
    await scan_once(folders)
    for name, tenant in itertools.product(("docs", "other"), ("acme", "default")):
        if (name, tenant) != ("docs", "default"):
            report = await scan_once(
                folders, folders.connector(source={"name": name, "tenant": tenant})
            )
            assert counts(report) == (1, 0, 0, 0)


async def test_every_statement_of_the_ledger_is_accepted_by_the_database(
    owner: asyncpg.Connection,
) -> None:
    ours = ("known_files", "files_between", "files_below", "record_files", "stray_documents")
    for name in ours:
        await owner.prepare(all_statements()[name])
