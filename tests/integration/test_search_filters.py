"""Filters on collection, documents and metadata: what they mean, that they never starve, that
nothing in them is read as SQL.
"""

from __future__ import annotations

from typing import Any

import pytest

from livedex.pipeline.store.database import Database
from tests.support.builders.search_corpus import TENANT, SearchIndex

METADATA: dict[str, dict[str, Any]] = {
    "hosting": {
        "kind": "contract",
        "year": 2024,
        "team": "legal",
        "tags": ["a", "b"],
        "signed": True,
    },
    "cleaning": {"kind": "contract", "year": 2021, "team": "legal", "tags": [], "signed": False},
    "refunds": {"kind": "policy", "year": 2024, "team": "people", "tags": ["b", "c"], "note": None},
    "leave": {"kind": "policy", "year": 2022.5, "team": "people", "since": "2022-03-01"},
    "espresso": {
        "a.b": "dotted",
        "content-type": "x",
        "": "empty",
        "kind'": "quoted",
        "$.kind": "path",
        "k" * 300: "long",
        "or": "word",
        "v": "1.10",
        "zip": "0150",
        "time": "12:30",
        "size": "1e3",
        "big": "12345678901234567890",
        "huge": "1e999",
        "name": "1.10 beta",
    },
    "plain": {},
    "odd": {
        "kind": ["contract", "draft"],
        "year": "2024",
        "team": {"name": "legal"},
        "back\\slash": 1,
        "ünï": "ç",
    },
}


async def fill(database: Database) -> SearchIndex:
    """See `tests/integration/conftest.py`."""
    made = await SearchIndex.open(database)
    for name, metadata in METADATA.items():
        await made.add(name, f"The agreement called {name}.", **metadata)
    return made


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ({}, set(METADATA)),
        ({"kind": "contract"}, {"hosting", "cleaning", "odd"}),
        ({"kind": "contract", "year": {"gte": 2024}}, {"hosting"}),
        ({"year": {"gte": 2022}}, {"hosting", "refunds", "leave"}),
        ({"year": {"gt": 2022, "lt": 2024}}, {"leave"}),
        ({"year": {"lte": 2021.0}}, {"cleaning"}),
        ({"year": 2024.0}, {"hosting", "refunds"}),
        ({"year": "2024"}, {"odd"}),
        ({"year": {"gte": "2"}}, {"odd"}),
        ({"since": {"lt": "2023"}}, {"leave"}),
        ({"tags": "b"}, {"hosting", "refunds"}),
        ({"tags": {"in": ["a", "c", 7]}}, {"hosting", "refunds"}),
        ({"tags": {"in": []}}, set()),
        ({"tags": {"not": "b"}}, {"cleaning", "leave", "espresso", "plain", "odd"}),
        ({"tags": {"exists": True}}, {"hosting", "cleaning", "refunds"}),
        ({"kind": {"exists": False}}, {"espresso", "plain"}),
        ({"note": None}, {"refunds"}),
        ({"note": {"exists": True}}, {"refunds"}),
        ({"signed": True}, {"hosting"}),
        ({"signed": {"not": True}}, set(METADATA) - {"hosting"}),
        ({"signed": "true"}, set()),
        ({"signed": 1}, set()),
        ({"team": {"in": ["people", "nobody"]}}, {"refunds", "leave"}),
        ({"team": "legal"}, {"hosting", "cleaning"}),
        ({"or": [{"kind": "policy"}, {"year": {"lt": 2022}}]}, {"refunds", "leave", "cleaning"}),
        ({"and": [{"kind": "policy"}, {"or": [{"year": 2024}, {"year": 1}]}]}, {"refunds"}),
        ({"kind": {"not": {"in": ["contract", "policy"]}}}, {"espresso", "plain"}),
        ({"kind": "Contract"}, set()),
        ({"missing": "contract"}, set()),
        ({"missing": {"gte": 0}}, set()),
        ({"kind": "contract", "team": "people"}, set()),
        ({"a.b": "dotted"}, {"espresso"}),
        ({"content-type": "x"}, {"espresso"}),
        ({"kind'": "quoted"}, {"espresso"}),
        ({"$.kind": "path"}, {"espresso"}),
        ({"k" * 300: "long"}, {"espresso"}),
        ({"or": "word"}, {"espresso"}),
        ({"back\\slash": 1}, {"odd"}),
        ({"ünï": "ç"}, {"odd"}),
        ({"v": "1.10"}, {"espresso"}),
        ({"v": "1.1"}, set()),
        ({"v": 1.1}, {"espresso"}),
        ({"v": {"gte": 1, "lt": 2}}, {"espresso"}),
        ({"v": {"gt": 2}}, set()),
        ({"v": {"not": 1.1}}, set(METADATA) - {"espresso"}),
        ({"zip": "0150"}, {"espresso"}),
        ({"zip": {"in": [150]}}, {"espresso"}),
        ({"time": "12:30"}, {"espresso"}),
        ({"time": {"gt": 0}}, set()),
        ({"size": {"gte": 1000}}, {"espresso"}),
        ({"big": {"gt": 1}}, {"espresso"}),
        ({"huge": {"gt": 1}}, set()),
        ({"name": {"gt": 1}}, set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value)[:50],
)
async def test_where_means_what_it_says_in_every_mode(
    shared_index: SearchIndex, where: dict[str, Any], names: set[str]
) -> None:
    for mode in ("hybrid", "vector", "keyword"):
        assert set(await shared_index.found("agreement", where=where, mode=mode, limit=50)) == names


@pytest.mark.parametrize(
    "key",
    [
        "kind' = 'contract' or true --",
        'kind"',
        "kind\\",
        "kind\\'",
        "{kind}",
        "$",
        "*",
        "**",
        "kind ? (true)",
        "@",
        "kind\n",
        "\U0001f98a",
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        "contract",
        "O'Brien",
        "z') or true --",
        '" || true || "',
        "$v0",
        "\\",
        "' or true --",
        "%s",
        "\n",
    ],
)
async def test_nothing_in_a_filter_is_read_as_a_path_or_as_sql(
    shared_index: SearchIndex, key: str, value: str
) -> None:
    assert await shared_index.found("agreement", where={key: value}, limit=50) == []


@pytest.mark.parametrize(
    "value",
    [
        "'",
        "a\\b",
        "{a,b}",
        "NULL",
        '"',
        "x" * 5_000,
        "' or true --",
        "\U0001f98a",
        "\u202e",
        "%",
        "*",
    ],
)
async def test_a_name_may_hold_anything(library: SearchIndex, value: str) -> None:
    await library.add(value, "agreement of an odd name", collection=value)
    assert await library.found("agreement", document_ids=[value]) == [value]
    assert await library.found("agreement", collection=value) == [value]


async def test_only_the_documents_and_collections_asked_for_are_found(library: SearchIndex) -> None:
    await library.add("elsewhere", "agreement in another collection", collection="other")
    assert set(await library.found("agreement", document_ids=["leave", "elsewhere", "none"])) == {
        "leave",
        "elsewhere",
    }
    assert await library.found(
        "agreement", document_ids=["leave", "elsewhere"], collection="other"
    ) == ["elsewhere"]
    assert set(await library.found("agreement", collection=["other", "default"], limit=50)) == {
        *METADATA,
        "elsewhere",
    }
    for mode in ("hybrid", "vector", "keyword"):
        assert await library.found("agreement", document_ids=["none"], mode=mode) == []
        assert await library.found("agreement", document_ids=[], mode=mode) == []
        assert await library.found("agreement", collection="nowhere", mode=mode) == []


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
async def test_what_ranks_low_is_found_when_the_filter_leaves_nothing_else(
    library: SearchIndex, mode: str
) -> None:
    for n in range(150):
        await library.add(f"near-{n}", f"printer badge espresso printer badge espresso {n}")
    await library.add(
        "far",
        ["something else", "a long text about other things in which a printer is named only once"],
        kind="rare",
    )
    found = await library.search(
        "espresso printer badge", where={"kind": "rare"}, mode=mode, candidates=1, limit=20
    )
    assert {hit["document_id"] for hit in found} == {"far"}
    assert len(found) == (1 if mode == "keyword" else 2)


async def test_a_passage_in_several_documents_is_a_hit_in_each_that_is_asked_for(
    library: SearchIndex,
) -> None:
    text = "The same unusual paragraph, word for word."
    await library.add("first", [text, "and more"], kind="a")
    await library.add("second", ["before it", text, text], kind="b")
    await library.add("third", text, kind="b")
    for mode in ("hybrid", "vector", "keyword"):
        hits = [
            hit
            for hit in await library.search("unusual paragraph", mode=mode, limit=50)
            if hit["content"] == text
        ]
        assert [(hit["document_id"], hit["chunk_index"]) for hit in hits] == [
            ("first", 0),
            ("second", 1),
            ("second", 2),
            ("third", 0),
        ]
        hits = await library.search("unusual paragraph", mode=mode, limit=50, where={"kind": "b"})
        assert [(h["document_id"], h["chunk_index"]) for h in hits if h["content"] == text] == [
            ("second", 1),
            ("second", 2),
            ("third", 0),
        ]


async def test_a_filter_sees_the_metadata_that_the_document_has_now(library: SearchIndex) -> None:
    await library.add("plain", "The agreement called plain.", kind="contract")
    assert "plain" in await library.found("agreement", where={"kind": "contract"})
    await library.delete("plain")
    assert "plain" not in await library.found("agreement", where={"kind": "contract"})
    assert library.space.embedder.texts.count("The agreement called plain.") <= 1
    async with library.database.tenant(TENANT) as connection:
        assert (
            await connection.fetchval(
                "select count(*) from passages where content = 'The agreement called plain.'"
            )
            == 1
        )
