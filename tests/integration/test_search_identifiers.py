"""Known items: an identifier of code, a log or a contract finds the passage that holds it."""

from __future__ import annotations

import pytest

from livedex.pipeline.search.word_statistics import refresh_word_statistics
from livedex.pipeline.store.database import Database
from tests.support.builders.identifier_corpus import identifier_corpus
from tests.support.builders.search_corpus import TENANT, SearchIndex

PASSAGES, KNOWN = identifier_corpus(seed=5, items=200)


async def fill(database: Database) -> SearchIndex:
    """See `tests/integration/conftest.py`."""
    made = await SearchIndex.open(database)
    await made.add("all", PASSAGES)
    await refresh_word_statistics(database, TENANT)
    return made


@pytest.mark.parametrize(
    ("mode", "words"), [("hybrid", ""), ("keyword", ""), ("keyword", "where ")]
)
async def test_an_identifier_finds_its_passage_first(
    shared_index: SearchIndex, mode: str, words: str
) -> None:
    missed = []
    for identifier, passage in KNOWN:
        hits = await shared_index.search(f"{words}{identifier}", mode=mode, limit=3, include=[])
        if not hits or hits[0]["chunk_index"] != passage:
            missed.append((identifier, [hit["chunk_index"] for hit in hits], passage))
    assert len(missed) <= 0.05 * len(KNOWN), missed
