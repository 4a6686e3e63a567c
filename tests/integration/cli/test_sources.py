"""Sources that no setting names any more, renamed ones, and watchers of several machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from livedex.app import source_registry as source_registration
from livedex.app.broker import open_broker
from livedex.app.catch_up import wait_for_catch_up
from livedex.app.source_registry import register_sources
from livedex.app.verify.checks import verify_index
from livedex.app.watch_role import make_connector
from livedex.app.wiring import write_up_state
from livedex.cli import sources as command
from livedex.pipeline.errors import ConfigError, NotFoundError
from livedex.pipeline.model import DocumentId, Reader, TenantId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.source_store import SourceStore
from tests.support.pipelines.indexed_folder import IndexedFolder, page

STAGES = ("chunk", "embed", "sync")


async def _watch(indexed: IndexedFolder, *sources: FolderSource) -> list[str]:
    """Start with these sources as a watcher does, and scan once; the names of orphaned ones."""
    write_up_state(indexed.s.data, sources, "http://127.0.0.1:1", 1)
    async with indexed.opened() as s:
        orphaned = await register_sources(s, sources)
        async with open_broker(s, STAGES, fills=False) as running:
            for source in sources:
                await make_connector(s, source, running.intake).reconcile()
            await wait_for_catch_up(s.operations, s.backlog, deadline=float("inf"), scan=False)
    return [each.name for each in orphaned]


async def _ids(indexed: IndexedFolder) -> set[str]:
    found, _ = await DocumentQueries(indexed.s.database).page(Reader(TenantId("default")))
    return {document.document_id for document in found}


async def test_a_source_that_no_setting_names_is_told_and_removed_on_purpose_alone(
    indexed: IndexedFolder, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text(page(50), "utf-8")
    docs, extra = (
        FolderSource(name="docs", path=indexed.folder),
        FolderSource(name="other", path=other),
    )
    assert await _watch(indexed, docs, extra) == []
    assert await _watch(indexed, docs) == ["other"]
    documents = DocumentQueries(indexed.s.database)
    found = await documents.get(Reader(TenantId("default")), DocumentId("other/a.md"))
    kept = await documents.get(Reader(TenantId("default")), DocumentId("docs/one.md"))
    assert found is not None
    assert kept is not None
    assert (found.source_state, kept.source_state) == ("orphaned", None)
    assert await indexed.differences() == {("orphaned", "other/a.md")}
    assert await _watch(indexed, docs, extra) == []  # it is back, and nothing was lost
    assert await indexed.differences() == set()
    assert await _watch(indexed, docs) == ["other"]
    after, told = await indexed.repair()
    assert [d.kind for d in told] == ["orphaned"]
    assert after.differences == []
    assert "other/a.md" not in await _ids(indexed)
    assert [each.name for each in await SourceStore(indexed.s.database).all()] == ["docs"]


@pytest.mark.parametrize("moves", [False, True])
async def test_a_source_of_another_name_is_recognised_by_its_folder_and_embeds_nothing(
    indexed: IndexedFolder, moves: bool
) -> None:
    await _watch(indexed, FolderSource(name="docs", path=indexed.folder))
    before, paid = await _ids(indexed), indexed.embedded
    folder = indexed.folder.rename(indexed.folder.with_name("papers")) if moves else indexed.folder
    assert await _watch(indexed, FolderSource(name="papers", path=folder)) == []
    assert await _ids(indexed) == {"papers/" + name.removeprefix("docs/") for name in before}
    assert indexed.embedded == paid
    assert [each.name for each in await SourceStore(indexed.s.database).all()] == ["papers"]
    async with indexed.opened() as s:
        assert (await verify_index(s)).differences == []


async def test_another_folder_takes_nothing_over(indexed: IndexedFolder, tmp_path: Path) -> None:
    await _watch(indexed, FolderSource(name="docs", path=indexed.folder))
    before = await _ids(indexed)
    other = tmp_path / "other"
    other.mkdir()
    assert await _watch(indexed, FolderSource(name="other", path=other)) == ["docs"]
    assert await _ids(indexed) == before


async def test_watchers_with_other_settings_orphan_nothing_of_each_other(
    indexed: IndexedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text(page(50), "utf-8")
    docs, extra = (
        FolderSource(name="docs", path=indexed.folder),
        FolderSource(name="other", path=other),
    )
    await _watch(indexed, docs)
    async with indexed.opened() as s:
        elsewhere = replace(
            s, settings=s.settings.model_copy(update={"database_url": "postgresql://elsewhere"})
        )
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "second")
        await register_sources(elsewhere, [extra])
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "first")
        await register_sources(elsewhere, [docs])
        assert not any(each.orphaned for each in await SourceStore(s.database).all())
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "second")
        await register_sources(elsewhere, [])
        assert {each.name: each.orphaned for each in await SourceStore(s.database).all()} == {
            "docs": False,
            "other": True,
        }
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "first")
        await register_sources(elsewhere, [docs, extra])
        assert not any(each.orphaned for each in await SourceStore(s.database).all())


@pytest.fixture
def called(
    indexed: IndexedFolder, owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The data directory, for commands that are called in the working folder of the index."""
    monkeypatch.setenv("LIVEDEX_DATABASE_URL", owner_url)
    monkeypatch.chdir(tmp_path)
    return indexed.s.data


async def test_withheld_deletes_are_carried_out_by_confirm_alone(
    indexed: IndexedFolder, called: Path
) -> None:
    docs = FolderSource(name="docs", path=indexed.folder)
    for n in range(20):
        indexed.write(f"more/{n}.txt", f"text {n}")
    await _watch(indexed, docs)
    for n in range(20):
        (indexed.folder / "more" / f"{n}.txt").unlink()
    await _watch(indexed, docs)
    [source] = await SourceStore(indexed.s.database).all()
    assert (source.withheld, source.documents) == (20, 23)
    assert await command._confirm(called, "docs", None, 60) == (20, 0)
    assert await _ids(indexed) == {"docs/one.md", "docs/two.md", "docs/notes/three.txt"}
    assert await command._confirm(called, "docs", None, 60) == (0, 0)
    assert await indexed.differences() == set()


async def test_remove_and_rename_refuse_what_would_not_last(
    indexed: IndexedFolder, called: Path
) -> None:
    docs = FolderSource(name="docs", path=indexed.folder)
    await _watch(indexed, docs)
    with pytest.raises(NotFoundError, match="source nothing not found"):
        await command._remove(called, "nothing", None, 60)
    with pytest.raises(NotFoundError, match="source docs not found"):
        await command._remove(called, "docs", "acme", 60)
    with pytest.raises(ConfigError, match="docs is watched"):
        await command._remove(called, "docs", None, 60)
    with pytest.raises(ConfigError, match="docs is watched"):
        await command._rename(called, "docs", "papers", None)
    with pytest.raises(ConfigError, match="cannot be the name"):
        await command._rename(called, "docs", "a/b", None)
    await _watch(indexed)
    assert await command._rename(called, "docs", "papers", None) == 3
    await _watch(indexed, FolderSource(name="papers", path=indexed.folder))
    assert await _ids(indexed) == {"papers/one.md", "papers/two.md", "papers/notes/three.txt"}
    await _watch(indexed)
    assert await command._remove(called, "papers", None, 60) == 3
    assert await _ids(indexed) == set()
    assert await SourceStore(indexed.s.database).all() == []
