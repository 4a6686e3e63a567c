"""The counts of words: refreshed when enough has changed, and a sample in their place while they
lag.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.word_statistics import (
    WordStatistics,
    read_word_statistics,
    refresh_word_statistics,
)
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.keyword_analyzer import analyze_query
from tests.support.builders.search_corpus import TENANT, SearchIndex


@pytest.fixture
async def library(database: Database) -> SearchIndex:
    made = await SearchIndex.open(database)
    for n in range(40):
        await made.add(
            f"d{n}",
            [f"harbour number{n}", f"signal {'ledger' if n < 4 else 'copper'} of_{n % 5} item{n}"],
        )
    return made


async def _counts(library: SearchIndex, text: str, tenant: TenantId = TENANT) -> WordStatistics:
    async with library.database.tenant(tenant, snapshot=True) as connection:
        return (
            await read_word_statistics(connection, tenant, "english", analyze_query(text), "none")
        )[0]


async def test_words_of_visible_passages_are_counted_and_rare_ones_left_out(
    library: SearchIndex, owner: asyncpg.Connection
) -> None:
    await library.delete("d0")
    assert await refresh_word_statistics(library.database, TENANT)
    rows = {
        row["word"]: row["passages"]
        for row in await owner.fetch(
            "select word, passages from word_counts where tenant_id = $1", TENANT
        )
    }
    assert rows["harbour"] == 39 and rows["signal"] == 39 and rows["ledger"] == 3
    assert rows["=of_1"] == 8 and "number7" not in rows
    assert not [word for word in rows if word.startswith("@")]
    counts = await _counts(library, "harbour ledger number7 of_1")
    assert counts.frequencies == {
        "harbour": 39,
        "ledger": 3,
        "=of_1": 8,
        "1": 9,  # one of them by the parts of item1
        "of1": 8,
        "number": 39,
    }
    assert counts.passages == 78


async def test_they_are_counted_again_once_a_tenth_has_come_or_gone(library: SearchIndex) -> None:
    assert await refresh_word_statistics(library.database, TENANT)
    assert not await refresh_word_statistics(library.database, TENANT)
    for n in range(8):
        await library.add(f"new{n}", f"harbour other{n}")
    assert not await refresh_word_statistics(library.database, TENANT)
    await library.add("new8", "harbour other8")
    assert await refresh_word_statistics(library.database, TENANT)
    assert (await _counts(library, "harbour")).frequencies["harbour"] == 49
    for n in range(10):
        await library.delete(f"d{n}")
    assert await refresh_word_statistics(library.database, TENANT)
    assert (await _counts(library, "harbour")).frequencies["harbour"] == 39
    assert not await refresh_word_statistics(library.database, TENANT)


async def test_while_they_lag_a_sample_stands_for_them(library: SearchIndex) -> None:
    assert (await _counts(library, "harbour ledger number7 unknownword")).frequencies == {
        "harbour": 40,
        "ledger": 4,
        "number7": 1,
        "=number7": 1,
        "number": 40,
        "7": 2,
    }
    assert await refresh_word_statistics(library.database, TENANT)
    for n in range(30):
        await library.add(f"new{n}", f"ledger other{n}")
    counts = await _counts(library, "ledger other3")
    assert counts.frequencies["ledger"] == 34
    assert counts.passages == 110


async def test_a_tenant_without_anything_has_no_counts(library: SearchIndex) -> None:
    nobody = TenantId("nobody")
    assert not await refresh_word_statistics(library.database, nobody)
    assert (await _counts(library, "harbour", nobody)).passages == 0


async def test_tenants_are_counted_apart(library: SearchIndex) -> None:
    other = TenantId("other")
    for n in range(5):
        await library.add(f"theirs{n}", f"harbour of others {n}", tenant=other)
    assert (await _counts(library, "harbour", other)).frequencies["harbour"] == 5
    assert await refresh_word_statistics(library.database, other)
    assert (await _counts(library, "harbour", other)).frequencies == {"harbour": 5}
    assert (await _counts(library, "harbour")).frequencies == {"harbour": 40}


async def test_two_that_count_at_once_are_both_safe(
    library: SearchIndex, owner: asyncpg.Connection
) -> None:
    done = await asyncio.gather(
        *(refresh_word_statistics(library.database, TENANT) for _ in range(4))
    )
    assert any(done)
    assert (
        await owner.fetchval(
            "select passages from word_counts where tenant_id = $1 and word = 'harbour'", TENANT
        )
        == 40
    )


async def test_a_tenant_knows_whether_most_of_the_index_is_others(
    library: SearchIndex, owner: asyncpg.Connection
) -> None:
    other = TenantId("other")
    for n in range(5):
        await library.add(f"theirs{n}", f"harbour of others {n}", tenant=other)
    for tenant in (TENANT, other):
        assert await refresh_word_statistics(library.database, tenant)
    await owner.execute("vacuum analyze passages")
    assert not (await _counts(library, "harbour")).is_one_of_many
    assert (await _counts(library, "harbour", other)).is_one_of_many
