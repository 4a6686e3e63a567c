"""The plan says what a sync does, to the character, and does nothing itself."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import asyncpg
import pytest

from livedex.app.plan import Plan, estimate_price, plan_with_index, plan_without_index
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings
from tests.support.pipelines.indexed_folder import IndexedFolder, page, paragraph


async def plan(indexed: IndexedFolder, name: str = "docs") -> Plan:
    async with indexed.opened() as s:
        return await plan_with_index(
            FolderSource(name=name, path=indexed.folder.with_name(name)), s
        )


async def test_an_unchanged_folder_needs_nothing(indexed: IndexedFolder) -> None:
    found = await plan(indexed)
    assert (
        found.unchanged,
        found.counts.total(),
        found.chunks_to_embed,
        found.characters_to_embed,
        found.tokens,
    ) == (3, 0, 0, 0, 0)


async def test_the_plan_is_what_the_sync_then_embeds(indexed: IndexedFolder) -> None:
    indexed.write("one.md", page(1).replace("Section 2\n\n", "Section 2\n\nInserted here. "))
    indexed.write("new.md", page(5))
    indexed.write("copy.md", page(2))
    indexed.write("again.md", page(5))
    (indexed.folder / "notes/three.txt").rename(indexed.folder / "moved.txt")
    paid = indexed.embedded
    found = await plan(indexed)
    assert dict(found.counts) == {"added": 3, "changed": 1, "moved": 1}
    assert found.unchanged == 1
    assert indexed.embedded == paid
    await indexed.sync()
    assert indexed.embedded - paid == found.chunks_to_embed == 5
    assert (await plan(indexed)).counts.total() == 0


async def test_a_touched_file_is_unchanged(indexed: IndexedFolder) -> None:
    indexed.write("one.md", page(1))
    found = await plan(indexed)
    assert (found.unchanged, found.counts.total()) == (3, 0)


async def test_what_a_killed_process_left_under_way_is_still_in_the_plan(
    indexed: IndexedFolder, owner: asyncpg.Connection
) -> None:
    await owner.execute(
        "update documents set version = null, state = null, pending_version = version where "
        "document_id = 'docs/one.md'"
    )
    await owner.execute(
        "delete from chunks using documents d where d.doc_id = chunks.doc_id and "
        "d.document_id = 'docs/one.md'"
    )
    await owner.execute(
        "delete from vectors_1 v where not exists (select from chunks c where c.passage_id = "
        "v.passage_id)"
    )
    found = await plan(indexed)
    assert (dict(found.counts), found.unchanged, found.chunks_to_embed) == ({"added": 1}, 2, 4)


async def test_a_folder_under_another_name_is_all_new_and_reuses_what_is_known(
    indexed: IndexedFolder,
) -> None:
    other = indexed.folder.with_name("other")
    other.mkdir()
    (other / "known.md").write_text(page(1), "utf-8")
    (other / "unknown.md").write_text(paragraph(77), "utf-8")
    found = await plan(indexed, "other")
    assert (dict(found.counts), len(found.known), found.chunks_to_embed) == ({"added": 2}, 4, 1)
    assert found.characters_to_embed == len(paragraph(77))


async def test_without_an_index_everything_is_to_embed_each_text_once(
    indexed: IndexedFolder,
) -> None:
    indexed.write("same.md", page(1))
    found = await plan_without_index(
        FolderSource(name="docs", path=indexed.folder), indexed.s.settings, indexed.s.data
    )
    assert (dict(found.counts), found.chunks_to_embed) == ({"added": 4}, 9)


async def test_deletes_that_are_too_many_at_once_are_announced_as_withheld(
    indexed: IndexedFolder,
) -> None:
    for n in range(30):
        indexed.write(f"many/{n}.md", f"one of many, number {n}")
    await indexed.sync()
    for n in range(5):
        (indexed.folder / f"many/{n}.md").unlink()
    assert (await plan(indexed)).withheld == 0
    for n in range(5, 30):
        (indexed.folder / f"many/{n}.md").unlink()
    found = await plan(indexed)
    assert (found.counts["deleted"], found.withheld) == (30, 30)


async def test_another_chunk_size_is_a_change_of_every_document(indexed: IndexedFolder) -> None:
    smaller = indexed.s.settings.model_copy(update={"chunk_size": 200})
    found = await plan_with_index(
        FolderSource(name="docs", path=indexed.folder), replace(indexed.s, settings=smaller)
    )
    assert dict(found.counts) == {"changed": 3}
    assert found.chunks_to_embed > 9


@pytest.mark.parametrize(
    ("embedder", "url", "expected"),
    [
        ("openai:text-embedding-3-small", None, {"amount": "0.0012", "currency": "USD"}),
        ("openai:text-embedding-3-large", None, {"amount": "0.0078", "currency": "USD"}),
        ("openai:text-embedding-3-small", "http://127.0.0.1:1/v1", None),
        ("openai:unheard-of", None, None),
        ("local", None, {"amount": "0", "currency": "USD"}),
        ("ollama:nomic-embed-text", "http://gpu:11434/v1", {"amount": "0", "currency": "USD"}),
        ("my.models:Mine", None, None),
    ],
)
def test_a_price_is_told_only_where_it_is_known(
    embedder: str, url: str | None, expected: dict[str, str] | None
) -> None:
    settings = Settings.model_construct(embedder=embedder, embedder_url=url)
    assert estimate_price(settings, 60_000) == expected


def test_small_prices_do_not_vanish() -> None:
    found = estimate_price(
        Settings.model_construct(embedder="openai:text-embedding-3-small", embedder_url=None), 120
    )
    assert found is not None
    assert Decimal(found["amount"]) == Decimal("0.000002")
