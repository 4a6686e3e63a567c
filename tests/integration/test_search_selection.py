"""The parameters of a search that choose and describe hits, on a real index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import Reader
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.database import Database
from tests.support.builders.search_corpus import TENANT, SearchIndex

MANUAL = [f"step {n} turns the lever {word}" for n, word in enumerate("abcdefgh")]


@pytest.fixture
async def library(database: Database) -> SearchIndex:
    made = await SearchIndex.open(database, dimensions=64)
    await made.add("docs/manual.md", MANUAL)
    await made.add("docs/copy.md", [MANUAL[3], "something else about tea"])
    await made.add("notes/tea.md", ["tea and a lever", "green tea needs 80 degrees"], kind="note")
    await made.add("notes/secret.md", [MANUAL[3]], acl=("user:ann",), kind="secret")
    return made


def names(hits: list[Any]) -> list[str]:
    return [hit["document_id"] for hit in hits]


async def test_one_document_fills_no_more_hits_than_it_may(library: SearchIndex) -> None:
    hits = await library.search("lever", limit=50, max_per_document=2)
    assert all(names(hits).count(name) <= 2 for name in names(hits))
    assert set(names(hits)) == {"docs/manual.md", "docs/copy.md", "notes/tea.md", "notes/secret.md"}


async def test_groups_count_documents_and_stay_together(library: SearchIndex) -> None:
    hits = await library.search("lever", limit=2, group_by="document")
    assert len(set(names(hits))) == len(hits) == 2
    hits = await library.search("lever step", limit=3, group_by="document", max_per_document=3)
    assert len(set(names(hits))) == 3
    groups = [name for n, name in enumerate(names(hits)) if n == 0 or names(hits)[n - 1] != name]
    assert len(groups) == 3 and len(hits) > 3


async def test_a_passage_in_several_documents_is_one_hit(library: SearchIndex) -> None:
    [hit] = await library.search(MANUAL[3], limit=1, collapse=True)
    others = {each["document_id"] for each in hit["also_in"]}
    assert {hit["document_id"], *others} == {"docs/manual.md", "docs/copy.md", "notes/secret.md"}
    answer = await library.engine.search(
        Reader(TENANT, frozenset(["user:bob"])),
        SearchRequest(query=MANUAL[3], limit=1, collapse=True),
    )
    [hit] = answer.hits
    shown = {hit["document_id"], *(each["document_id"] for each in hit["also_in"])}
    assert shown == {"docs/manual.md", "docs/copy.md"}


async def test_context_is_the_chunks_around_and_touching_hits_are_one(library: SearchIndex) -> None:
    [hit] = await library.search(
        MANUAL[3], limit=1, context=1, document_ids="docs/manual.md", mode="keyword"
    )
    assert [each["chunk_index"] for each in hit["context"]] == [2, 3, 4]
    assert [each["content"] for each in hit["context"]] == MANUAL[2:5]
    assert all(each["end"] - each["start"] == len(each["content"]) for each in hit["context"])
    hits = await library.search(
        "lever", limit=8, context=1, document_ids="docs/manual.md", mode="keyword"
    )
    assert len(hits) == 1
    assert [each["chunk_index"] for each in hits[0]["context"]] == list(range(8))


async def test_context_obeys_rights(library: SearchIndex) -> None:
    await library.add("hidden.md", ["plum before", "plum jam", "plum after"], acl=("user:ann",))
    for principal, found in (("user:ann", 3), ("user:bob", 0)):
        answer = await library.engine.search(
            Reader(TENANT, frozenset([principal])),
            SearchRequest(query="plum jam", context=5, mode="keyword"),
        )
        assert sum(len(hit["context"]) for hit in answer.hits) == found


async def test_highlights_are_around_the_words_in_any_form(library: SearchIndex) -> None:
    await library.add("long.md", ["filler word " * 60 + "parcels are returned, or ERR_X_1 " * 2])
    [hit] = await library.search(
        "returning a parcel ERR_X_1", document_ids="long.md", include=["highlights"]
    )
    assert "content" not in hit
    texts = {each["text"][low:high] for each in hit["highlights"] for low, high in each["spans"]}
    assert texts >= {"parcels", "returned", "ERR_X_1"} and "filler" not in texts


async def test_facets_count_what_may_be_read(library: SearchIndex) -> None:
    request = SearchRequest(query="lever", facets=["kind", "collection"], limit=1)
    answer = await library.engine.search(Reader(TENANT), request)
    assert answer.facets == {"kind": {"note": 1, "secret": 1}, "collection": {"default": 4}}
    answer = await library.engine.search(Reader(TENANT, frozenset(["user:bob"])), request)
    assert answer.facets == {"kind": {"note": 1}, "collection": {"default": 3}}
    assert "facets" not in (await library.ask("lever")).as_object()


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
async def test_documents_are_filtered_by_their_own_fields(
    library: SearchIndex, owner: asyncpg.Connection, mode: str
) -> None:
    async def found(**filters: Any) -> set[str]:
        return set(names(await library.search("lever tea", limit=50, mode=mode, **filters)))

    await owner.execute(
        "update documents set source = 's1', mime_type = 'text/markdown', "
        "changed_at = '2026-03-01T12:00:00Z' where document_id like 'docs/%'"
    )
    everything = await found()
    docs = {"docs/manual.md", "docs/copy.md"}
    assert await found(source="s1") == docs == await found(mime_type=["text/markdown", "x"])
    assert await found(source="s2") == set() == await found(source=[])
    assert await found(path_prefix="docs/") == docs
    assert await found(path_prefix=["docs/m", "notes/"]) == everything - {"docs/copy.md"}
    assert await found(path_prefix="notes/", where={"kind": "note"}) == {"notes/tea.md"}
    assert await found(source="s1", where={"kind": "note"}) == set()
    noon = "2026-03-01T13:00:00+01:00"
    for name, expected in (("gte", docs), ("lte", docs), ("gt", set()), ("lt", set())):
        assert await found(changed_at={name: noon}) == expected
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert await found(synced_at={"lt": later}) == everything
    assert await found(path_prefix='docs/" || true || "') == set()


async def test_a_nested_value_is_found_by_its_path(library: SearchIndex) -> None:
    await library.add("nested", "plum", a={"b": 2, "c": {"path": "x"}}, path="p")

    async def found(where: dict[str, Any]) -> list[str]:
        return names(await library.search("plum", where=where, mode="keyword"))

    assert await found({"path": ["a", "b"], "eq": 2}) == ["nested"]
    assert await found({"path": ["a", "b"], "gt": 2}) == []
    assert await found({"path": ["a", "c", "path"], "in": ["x"]}) == ["nested"]
    assert await found({"path": ["a", "z"], "exists": False}) == ["nested"]
    assert await found({"path": "p"}) == ["nested"]
    assert await found({"and": [{"path": ["a", "b"], "eq": 2}, {"path": "q"}]}) == []


async def test_pages_are_cut_from_one_frozen_ranking(library: SearchIndex) -> None:
    every = await library.search("lever", limit=50)
    answer = await library.ask("lever", limit=3, cursor="")
    pages = [answer.hits]
    while answer.next_cursor is not None:
        if len(pages) == 1:
            await library.add("new.md", "lever lever lever")
            await library.add("docs/copy.md", "nothing of it any more")
        answer = await library.ask("lever", limit=3, cursor=answer.next_cursor)
        pages.append(answer.hits)
    shown = [(hit["document_id"], hit["chunk_index"]) for page in pages for hit in page]
    before = [(hit["document_id"], hit["chunk_index"]) for hit in every]
    first = before[:3]
    assert shown == first + [each for each in before[3:] if each[0] != "docs/copy.md"]
    with pytest.raises(RejectedError, match="next_cursor"):
        await library.ask("lever", cursor="nonsense")


async def test_a_cursor_shows_nothing_that_the_reader_may_not_read(library: SearchIndex) -> None:
    request = SearchRequest(query=MANUAL[3], limit=1, cursor="")
    answer = await library.engine.search(Reader(TENANT, frozenset(["user:ann"])), request)
    assert answer.next_cursor is not None
    again = request.model_copy(update={"cursor": answer.next_cursor, "limit": 50})
    found = await library.engine.search(Reader(TENANT, frozenset(["user:bob"])), again)
    assert "notes/secret.md" not in names(found.hits)


async def test_newer_documents_come_first_where_recency_counts(
    library: SearchIndex, owner: asyncpg.Connection
) -> None:
    await library.add("old", "plum jam plum")
    await library.add("new", "plum jam and more words here")
    await owner.execute(
        "update documents set changed_at = now() - interval '300 days' where document_id = 'old'"
    )
    await owner.execute("update documents set changed_at = now() where document_id = 'new'")
    recency = {"field": "changed_at", "half_life_days": 30.0, "weight": 0.9}
    assert names(await library.search("plum", mode="keyword")) == ["old", "new"]
    assert names(await library.search("plum", mode="keyword", recency=recency)) == ["new", "old"]


async def test_mmr_and_top_p_choose_among_the_candidates(library: SearchIndex) -> None:
    every = [hit["document_id"] for hit in await library.search("lever step", limit=50)]
    assert sorted(names(await library.search("lever step", limit=50, mmr=True))) == sorted(every)
    same = await library.search("lever step", limit=50, mmr=True, mmr_lambda=1.0)
    assert names(same) == every
    assert len(await library.search("lever step", limit=50, top_p=0.0)) == 1
    assert len(await library.search("lever step", limit=50, top_p=0.5)) < len(every)
