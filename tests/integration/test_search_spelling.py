"""Spellings in a real index: each finds the other, and the exact one comes first."""

from __future__ import annotations

import asyncpg
import pytest

from livedex.pipeline.search.word_statistics import refresh_word_statistics
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.index_inspection import IndexInspection
from livedex.pipeline.store.documents.keyword_rebuild import rewrite_outdated_passages
from tests.support.builders.search_corpus import TENANT, SearchIndex
from tests.support.builders.spelling_pairs import SPELLING_PAIRS

PAIRS = [pair for pairs in SPELLING_PAIRS.values() for pair in pairs]


async def fill(database: Database) -> SearchIndex:
    """See `tests/integration/conftest.py`."""
    made = await SearchIndex.open(database)
    await made.add(
        "pairs",
        [
            f"Note {n}{side} of the collection holds {word} among other things."
            for n, pair in enumerate(PAIRS)
            for side, word in zip("ab", pair, strict=True)
        ],
    )
    await refresh_word_statistics(database, TENANT)
    return made


@pytest.mark.parametrize(("mode", "step"), [("keyword", 1), ("hybrid", 5)])
async def test_each_spelling_finds_the_other_and_itself_first(
    shared_index: SearchIndex, mode: str, step: int
) -> None:
    for n in range(0, len(PAIRS), step):
        for side, typed in enumerate(PAIRS[n]):
            hits = await shared_index.search(typed, mode=mode, limit=60, include=[])
            found = [hit["chunk_index"] for hit in hits]
            assert {2 * n, 2 * n + 1} <= set(found), (n, typed)
            assert found.index(2 * n + side) < found.index(2 * n + 1 - side), (n, typed)


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
async def test_an_identifier_finds_its_exact_spelling_then_others_then_nothing(
    library: SearchIndex, mode: str
) -> None:
    texts = {
        "certificate": "ISO 14001 certificate",
        "passing": "A long report on suppliers, invoices, visits and audits of the plant, which "
        "mentions in passing that ISO-14001 is not asked for by any customer so far.",
        "joined": "Our ISO14001 handbook",
        "longer": "The standard ISO-14001-b is another one, and so is ISO 140011",
        "parts": "ISO wrote it, and page 14001 is missing",
        "covid": "SARS 17 rules",
    }
    for name, text in texts.items():
        await library.add(name, text)
    found = await library.found("ISO-14001", mode=mode, limit=5)
    assert found[0] == "passing" and set(found[1:]) == {"certificate", "joined"}
    assert (await library.found("ISO 14001", mode="keyword"))[0] == "certificate"
    assert await library.found("SARS-17", mode=mode) == ["covid"]
    assert (await library.found("ISO-14001", mode=mode, limit=1)) == ["passing"]


async def test_words_of_an_older_version_are_rewritten_in_batches_and_nothing_else(
    library: SearchIndex, owner: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.pipeline.store.documents.keyword_rebuild.BATCH_PASSAGES", 200)
    before = await owner.fetch("select passage_id, tsv, terms from passages order by passage_id")
    vectors = await owner.fetchval("select count(*) from vectors_1")
    await owner.execute(
        "update passages set words_version = 1, terms = 1, tsv = to_tsvector('simple', 'old')"
    )
    assert await library.found("email", mode="keyword") == []
    inspection = IndexInspection(library.database, TENANT, "english")
    contents = dict(await inspection.contents([row["passage_id"] for row in before]))
    assert await inspection.find_wrong_keyword_entries(contents) == set()  # they are rewritten
    batches = []
    while count := await rewrite_outdated_passages(library.database, TENANT, "english"):
        batches.append(count)
    assert len(batches) == -(-len(before) // 200) and sum(batches) == len(before)
    assert before == await owner.fetch(
        "select passage_id, tsv, terms from passages order by passage_id"
    )
    assert vectors == await owner.fetchval("select count(*) from vectors_1")
    assert not await owner.fetchval("select count(*) from passages where words_version < 2")


async def test_a_passage_of_an_older_process_is_rewritten_too(
    library: SearchIndex, owner: asyncpg.Connection
) -> None:
    await owner.execute(
        "insert into passages (tenant_id, hash, content, length, terms, tsv)"
        " values ($1, sha256('x'), 'Königsstraße', 12, 1, to_tsvector('english', 'königsstrasse'))",
        TENANT,
    )
    assert await rewrite_outdated_passages(library.database, TENANT, "english") == 1
    assert "'konigsstrass'" in await owner.fetchval(
        "select tsv::text from passages where content = 'Königsstraße'"
    )
