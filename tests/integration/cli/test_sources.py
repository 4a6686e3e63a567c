"""Sources that no setting names any more, renamed ones, and watchers of several machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli import source_registration
from pipeline.cli.brokers import open_broker
from pipeline.cli.proving import prove
from pipeline.cli.source_registration import register_sources
from pipeline.cli.waiting import wait_for_all
from pipeline.cli.watching import make_connector
from pipeline.cli.wiring import remember
from pipeline.model import DocumentId, Reader, TenantId
from pipeline.settings import FolderSource
from pipeline.store.documents import Documents
from pipeline.store.sources import Sources
from tests.indexed import Indexed, page

STAGES = ("chunk", "embed", "sync")


async def _watch(indexed: Indexed, *sources: FolderSource) -> list[str]:
    """Start with these sources as a watcher does, and scan once; the names of orphaned ones."""
    remember(indexed.s.data, sources, "http://127.0.0.1:1", 1)
    async with indexed.opened() as s:
        orphaned = await register_sources(s, sources)
        async with open_broker(s, STAGES, fills=False) as running:
            for source in sources:
                await make_connector(s, source, running.intake).reconcile()
            await wait_for_all(s.operations, s.backlog, deadline=float("inf"), scan=False)
    return [each.name for each in orphaned]


async def _ids(indexed: Indexed) -> set[str]:
    found, _ = await Documents(indexed.s.database).page(Reader(TenantId("default")))
    return {document.document_id for document in found}


async def test_a_source_that_no_setting_names_is_told_and_removed_on_purpose_alone(indexed: Indexed, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text(page(50), "utf-8")
    docs, extra = FolderSource(name="docs", path=indexed.folder), FolderSource(name="other", path=other)
    assert await _watch(indexed, docs, extra) == []
    assert await _watch(indexed, docs) == ["other"]
    documents = Documents(indexed.s.database)
    found = await documents.get(Reader(TenantId("default")), DocumentId("other/a.md"))
    kept = await documents.get(Reader(TenantId("default")), DocumentId("docs/one.md"))
    assert found is not None
    assert kept is not None
    assert (found.source_state, kept.source_state) == ("orphaned", None)
    assert await indexed.differences() == {("orphaned", "other/a.md")}
    assert await _watch(indexed, docs, extra) == []  # it is back, and nothing was lost
    assert await indexed.differences() == set()
    assert await _watch(indexed, docs) == ["other"]
    after, told = await indexed.mend()
    assert [d.kind for d in told] == ["orphaned"]
    assert after.differences == []
    assert "other/a.md" not in await _ids(indexed)
    assert [each.name for each in await Sources(indexed.s.database).all()] == ["docs"]


@pytest.mark.parametrize("moves", [False, True])
async def test_a_source_of_another_name_is_recognised_by_its_folder_and_embeds_nothing(indexed: Indexed, moves: bool) -> None:
    await _watch(indexed, FolderSource(name="docs", path=indexed.folder))
    before, paid = await _ids(indexed), indexed.embedded
    folder = indexed.folder.rename(indexed.folder.with_name("papers")) if moves else indexed.folder
    assert await _watch(indexed, FolderSource(name="papers", path=folder)) == []
    assert await _ids(indexed) == {"papers/" + name.removeprefix("docs/") for name in before}
    assert indexed.embedded == paid
    assert [each.name for each in await Sources(indexed.s.database).all()] == ["papers"]
    async with indexed.opened() as s:
        assert (await prove(s)).differences == []


async def test_another_folder_takes_nothing_over(indexed: Indexed, tmp_path: Path) -> None:
    await _watch(indexed, FolderSource(name="docs", path=indexed.folder))
    before = await _ids(indexed)
    other = tmp_path / "other"
    other.mkdir()
    assert await _watch(indexed, FolderSource(name="other", path=other)) == ["docs"]
    assert await _ids(indexed) == before


async def test_watchers_with_other_settings_orphan_nothing_of_each_other(
    indexed: Indexed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text(page(50), "utf-8")
    docs, extra = FolderSource(name="docs", path=indexed.folder), FolderSource(name="other", path=other)
    await _watch(indexed, docs)
    async with indexed.opened() as s:
        elsewhere = replace(s, settings=s.settings.model_copy(update={"database_url": "postgresql://elsewhere"}))
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "second")
        await register_sources(elsewhere, [extra])
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "first")
        await register_sources(elsewhere, [docs])
        assert not any(each.orphaned for each in await Sources(s.database).all())
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "second")
        await register_sources(elsewhere, [])
        assert {each.name: each.orphaned for each in await Sources(s.database).all()} == {"docs": False, "other": True}
        monkeypatch.setattr(source_registration, "watcher_name", lambda _: "first")
        await register_sources(elsewhere, [docs, extra])
        assert not any(each.orphaned for each in await Sources(s.database).all())
