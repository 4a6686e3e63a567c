"""The first load is counted before it begins, and is over when everything found has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from livedex.app.initial_load import InitialLoad
from livedex.cli.load_progress import format_progress, format_summary, show_progress
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.database import Database
from tests.support.pipelines.folder_connector import FolderHarness


async def until_found(load: InitialLoad, found: int, done: int) -> None:
    async with asyncio.timeout(20):
        while (load.found, load.done) != (found, done):
            await asyncio.sleep(0.01)


async def test_files_are_counted_first_and_each_that_ends_counts(
    folders: FolderHarness, database: Database
) -> None:
    for n in range(5):
        folders.write(f"deep/{n}.md", f"text {n}")
    folders.write("picture.png", "none")
    connector = folders.connector()
    load = InitialLoad([(FolderSource(name="docs", path=folders.root), connector)], database)
    task = asyncio.create_task(load.run())
    await until_found(load, 5, 0)
    assert not load.is_over, "nothing was read yet"
    await connector.reconcile()
    connector.ready.set()
    await _end(database, 4)
    await until_found(load, 5, 4)
    assert not load.is_over, "one is under way"
    await _end(database, 5)
    await asyncio.wait_for(task, 20)
    assert (load.found, load.done, load.at_start, load.is_over) == (5, 5, 0, True)


async def _end(database: Database, documents: int) -> None:
    """Let the first documents end in the version that was published: the last one dead, the others
    visible.
    """
    async with database.tenant("default") as connection:  # type: ignore[arg-type]
        await connection.execute(
            """insert into documents (tenant_id, document_id, version, digest, state, dead_version)
               select tenant_id, document_id, case when n < 5 then version end, case when n < 5
                 then ''::bytea end, case when n < 5 then 'synced' end,
                      case when n = 5 then version end
               from (select *, row_number() over (order by path) as n from source_files) f
                 where n <= $1
               on conflict do nothing""",
            documents,
        )


async def test_a_folder_that_is_not_there_is_no_load(
    folders: FolderHarness, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = folders.connector(source={"path": tmp_path / "missing"})
    missing.ready.set()
    load = InitialLoad([(FolderSource(name="docs", path=tmp_path / "missing"), missing)], database)
    await asyncio.wait_for(load.run(), 20)
    await show_progress(load)
    assert (load.found, load.is_over) == (0, True)
    assert capsys.readouterr().err == ""


def test_progress_names_documents_rate_and_what_is_left(database: Database) -> None:
    load = InitialLoad([], database, found=2030, done=1204, at_start=4, seconds=10)
    assert format_progress(load) == "1,204 of 2,030 documents, 120/s, 6.9 s left"
    assert format_progress(InitialLoad([], database, found=9, done=0)) == "0 of 9 documents"
    assert (
        format_progress(InitialLoad([], database, found=20_000, done=10, seconds=20))
        == "10 of 20,000 documents, 0.5/s, 11.1 h left"
    )
    assert (
        format_summary(
            InitialLoad([], database, found=2030, done=2030, passages=28_113, seconds=24.2)
        )
        == "indexed: 2,030 documents, 28,113 passages, 24 s"
    )
    assert (
        format_summary(InitialLoad([], database, found=1, done=1, passages=1, seconds=0.31))
        == "indexed: 1 document, 1 passage, 0.3 s"
    )
