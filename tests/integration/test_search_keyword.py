"""The keyword leg on a real index: questions, awkward words, scripts, identifiers, and what it
must not cost.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Sequence

import asyncpg
import pytest

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.bm25 import term_frequencies
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.keyword_retriever import CandidateLimits, KeywordRetriever
from livedex.pipeline.search.word_statistics import WordStatistics, read_word_statistics
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.keyword_analyzer import analyze_query
from livedex.pipeline.store.postgres.statements import sql
from tests.support.builders.search_corpus import TENANT, SearchIndex, hit_positions

HANDBOOK = {
    "refunds": "Customers may send goods back within thirty days after delivery. The money "
    "is paid to the card used for the purchase.",
    "espresso": "Fill the tank with soft water only. Descale the boiler whenever the orange "
    "lamp blinks, with citric acid.",
    "resets": "A browser shows ERR_CONN_RESET when the proxy hangs up. On ERR_CONN_RESET "
    "look at the idle timeout.",
    "refusals": "A browser shows ERR_CONN_REFUSED when nothing listens on the port.",
    "candidate": "The build v10.4.0-rc1 brings the new importer for testing.",
    "final": "The build v10.4.0 brings the new importer for everybody.",
    "gateway": "The gateway of the office answers at 192.168.0.1.",
    "printer": "The printer of the office answers at 192.168.0.10. Its toner lies in the cupboard.",
    "engine": "The engine is written in C++ because it must answer within a millisecond.",
    "scripts": "Small tools are written in C and Python because most of us read them well.",
    "contacts": "Invoices go to user@example.org and nobody else.",
    "visitors": "Announcements of visitors go to user@example.net the day before. Questions "
    "go to user@example.net as well.",
    "chinese": "这是一个测试，说明如何用 go 部署方案。",
    "japanese": "日本語のテスト",
    "thai": "ภาษาไทยเป็นภาษาที่ง่าย",
}
IDENTIFIERS = {
    "ERR_CONN_RESET": "resets",
    "err_conn_refused": "refusals",
    "v10.4.0-rc1": "candidate",
    "v10.4.0": "final",
    "192.168.0.1": "gateway",
    "192.168.0.10": "printer",
    "C++": "engine",
    "user@example.org": "contacts",
    "USER@EXAMPLE.NET": "visitors",
}


async def fill(database: Database) -> SearchIndex:
    """See `tests/integration/conftest.py`."""
    made = await SearchIndex.open(database)
    for name, text in HANDBOOK.items():
        await made.add(name, text)
    return made


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("How long can I wait before I send a purchase back?", "refunds"),
        ("Which acid should I take when the lamp of the coffee maker blinks?", "espresso"),
        ("Where does the toner of our printing machine lie?", "printer"),
        ("测试", "chinese"),
        ("go 部署", "chinese"),
        ("试", "chinese"),
        ("テスト", "japanese"),
        ("ไทย", "thai"),
    ],
)
async def test_a_question_finds_its_document_though_not_all_words_occur(
    shared_index: SearchIndex, question: str, document: str
) -> None:
    assert (await shared_index.found(question, mode="keyword"))[0] == document


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("identifier", IDENTIFIERS)
async def test_an_identifier_finds_what_holds_it_and_nothing_like_it(
    shared_index: SearchIndex, identifier: str, mode: str
) -> None:
    assert await shared_index.found(identifier, mode=mode) == [IDENTIFIERS[identifier]]


async def test_an_identifier_that_nothing_holds_is_searched_by_its_words(
    shared_index: SearchIndex,
) -> None:
    found = await shared_index.found("ERR_CONN_ABORTED", mode="keyword")
    assert set(found) == {"resets", "refusals"}


async def test_a_look_up_keeps_to_what_is_asked_for(shared_index: SearchIndex) -> None:
    assert (await shared_index.found("ERR_CONN_RESET", document_ids=["refusals", "espresso"]))[
        0
    ] == "refusals"


async def test_an_identifier_among_words_puts_its_document_first(shared_index: SearchIndex) -> None:
    assert (
        await shared_index.found("what does ERR_CONN_REFUSED mean in a browser", mode="keyword")
    )[0] == "refusals"


@pytest.mark.parametrize("query", ["the and of", "???", "🦊", "-", "'", "()"])
async def test_a_query_without_words_leaves_the_keyword_leg_empty_and_the_vectors_answer(
    shared_index: SearchIndex, query: str
) -> None:
    assert await shared_index.search(query, mode="keyword") == []
    hits = await shared_index.search(query)
    assert hits and all(hit["keyword_rank"] is None for hit in hits)


async def test_an_exclusion_is_only_a_word(shared_index: SearchIndex) -> None:
    assert await shared_index.search("-nonexistentword", mode="keyword", limit=1000) == []
    assert (await shared_index.found("-espresso -boiler", mode="keyword", limit=1000)) == [
        "espresso"
    ]


AWKWARD = [
    "'",
    "a & | b",
    "team:x",
    "(((",
    "foo OR",
    '"open',
    "!!!",
    "o'brien",
    ":*",
    "\\",
    "\\'",
    "a\\",
    "a <-> b",
    "<99999999999>",
    "'; drop table documents; --",
    "x" * 5_000,
    "word " * 3_900,
    "'" * 9_999,
    "(" * 3_000,
    "测试" * 9_000,
    "🦊" * 9_000,
    "a" + "\u0301" * 5_000,
    " ".join(f"w{n}" for n in range(3_000)),
    " ".join(f"a_{n}" for n in range(2_500)),
    "\x01 a",
    "\x1b[31mred",
    "@ = =x @x",
    "\u202eright to left",
    "$1 %s {0}",
]


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
async def test_awkward_queries_are_answered(shared_index: SearchIndex, mode: str) -> None:
    for query in AWKWARD:
        for hit in await shared_index.search(f"{query} ", mode=mode):
            assert 0 <= hit["score"] <= 1


@pytest.mark.parametrize(
    "query",
    [
        "espresso &",
        "(boiler",
        "boiler:*",
        '"boiler',
        "BOILER",
        "boiler OR",
        "' boiler '",
        "boiler\t\nlamp",
        "boiler\u00a0lamp",
        "boiler -- ;",
    ],
)
async def test_the_words_in_an_awkward_query_still_find(library: SearchIndex, query: str) -> None:
    await library.add("espresso", "espresso " + HANDBOOK["espresso"])
    assert (await library.found(query))[0] == "espresso"
    assert (await library.found(query, mode="keyword"))[0] == "espresso"


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"{n:07d}" for n in range(100_000)),
        "QUJD" * 225_000,
        " ".join(f"id_{n}.x" for n in range(60_000)),
        "测" * 200_000,
        "hello world " * 100_000,
    ],
    ids=["numbers", "base64", "identifiers", "chinese", "repetition"],
)
async def test_a_passage_of_any_size_is_stored_and_found_by_its_vector(
    library: SearchIndex, text: str
) -> None:
    await library.add("huge", f"introduction {text}")
    assert "huge" in await library.found("introduction", mode="vector", limit=100)
    assert "huge" in await library.found("introduction", mode="keyword")


async def test_results_are_the_same_after_the_words_were_counted(library: SearchIndex) -> None:
    questions = ["goods back after thirty days", "the new importer", "browser proxy port"]
    before = [
        hit_positions(await library.search(question, mode="keyword")) for question in questions
    ]
    async with library.database.tenant(TENANT) as connection:
        await connection.execute(sql("count_words"), TENANT, 1)
        await connection.execute(sql("count_passages"), TENANT)
    assert [
        hit_positions(await library.search(question, mode="keyword")) for question in questions
    ] == before


async def _fill(library: SearchIndex, count: int) -> None:
    """Documents of common words, and a rare one in every fiftieth."""
    rng = random.Random(3)
    common = "harbour signal ledger copper meadow orbit velvet anchor".split()
    for n in range(count):
        await library.add(
            f"filler-{n}",
            " ".join(rng.choices(common, k=12)) + (f" saffron{n % 7}" if n % 50 == 0 else ""),
        )


async def test_candidates_are_chosen_by_rare_words_and_ranked_by_all(library: SearchIndex) -> None:
    await _fill(library, 400)
    await library.add("both", "harbour signal ledger and saffron0 saffron1 saffron2")
    ids = await _leg(
        library,
        "saffron0 saffron1 harbour signal ledger",
        CandidateLimits(expected=20, most=50),
        wanted=5,
    )
    assert ids[0] == "both"
    found = await _leg(library, "saffron0 harbour", CandidateLimits(expected=20, most=50), wanted=3)
    assert all(
        document == "both" or int(document.removeprefix("filler-")) % 50 == 0 for document in found
    )


async def _leg(
    library: SearchIndex, text: str, breadth: CandidateLimits, *, wanted: int
) -> list[str]:
    """The documents that the leg finds, best first."""
    query = analyze_query(text)
    async with library.database.tenant(TENANT, snapshot=True) as connection:
        counts, _ = await read_word_statistics(connection, TENANT, "english", query, "none")
        scores = (
            await KeywordRetriever(connection, TENANT, DocumentFilter(), wanted, breadth).run(
                query, counts
            )
        ).scores
        rows = await connection.fetch(
            sql("chunks_of_passages"), TENANT, list(scores), 1, *DocumentFilter().arguments
        )
    names = {row["passage_id"]: row["document_id"] for row in rows}
    return [names[passage] for passage in sorted(scores, key=lambda passage: -scores[passage])]


async def test_passages_that_no_document_shows_take_no_place_away(library: SearchIndex) -> None:
    for n in range(60):
        await library.add("rewritten", f"saffron saffron draft{n}")
    await library.add(
        "late", "a long text in which saffron stands only once among very many other words"
    )
    assert set(await _leg(library, "saffron", CandidateLimits(most=10), wanted=10)) == {
        "rewritten",
        "late",
    }
    assert set(await library.found("saffron", mode="keyword")) == {"rewritten", "late"}


async def test_a_filter_takes_no_place_away(library: SearchIndex) -> None:
    for n in range(60):
        await library.add(f"near-{n}", "saffron saffron", collection="many")
    await library.add(
        "far", "a long text in which saffron stands only once among very many other words"
    )
    assert await library.found(
        "saffron", mode="keyword", collection="default", candidates=1, limit=5
    ) == ["far"]


async def test_common_words_find_within_a_selection_where_rare_ones_are_not(
    library: SearchIndex,
) -> None:
    await _fill(library, 120)
    await library.add("chosen", "harbour signal", collection="small")
    query = analyze_query("saffron0 saffron1 harbour")
    async with library.database.tenant(TENANT, snapshot=True) as connection:
        counts, _ = await read_word_statistics(connection, TENANT, "english", query, "none")
        lagging = WordStatistics(
            counts.words,
            {**counts.frequencies, "harbour": 10**6},
            counts.passages,
            counts.mean_terms,
        )
        found = await KeywordRetriever(connection, TENANT, DocumentFilter(["small"]), 5).run(
            query, lagging
        )
    assert len(found.scores) == 1


async def test_the_index_serves_the_candidates_under_row_level_security(
    owner: asyncpg.Connection, library: SearchIndex
) -> None:
    await owner.execute(
        "insert into passages (tenant_id, hash, content, length, terms, tsv)"
        " select 'other', sha256(n::text::bytea), n::text, 5, 1, to_tsvector('simple', 'w' "
        "|| n % 500) from generate_series(1, 20000) n"
    )
    await owner.execute("vacuum analyze passages")
    body = str(
        await owner.fetchval("select prosrc from pg_proc where proname = 'keyword_candidates'")
    )
    for name, value in {
        "matching": "'w7'::tsquery",
        "words": "array['w7'::tsquery]",
        "weights": "array[1.0::float8]",
        "mean_terms": "1.0",
        "most": "300",
    }.items():
        body = re.sub(rf"(?<![\w.]){name}\b", value, body)
    await owner.execute("set role livedex_definer")
    plan = "\n".join(
        row[0]
        for row in await owner.fetch(
            f"explain {body}".replace("current_setting('livedex.tenant', true)", "'other'")
        )
    )
    assert "passages_by_words" in plan, plan
    assert "Seq Scan" not in plan, plan


async def test_the_rank_of_a_word_alone_says_how_often_it_stands(owner: asyncpg.Connection) -> None:
    rows = await owner.fetch(
        "select n, ts_rank(to_tsvector('english', repeat('saffron tea ', n)) || "
        "array_to_tsvector(array['=x']), 'saffron'::tsquery) as often,"
        " ts_rank(to_tsvector('english', repeat('saffron tea ', n)) || "
        "array_to_tsvector(array['=x']), $1::tsquery) as once"
        " from generate_series(1, 300) n",
        "'=x'",
    )
    assert term_frequencies([row["often"] for row in rows]).tolist() == [
        min(row["n"], 255) for row in rows
    ]
    assert {*term_frequencies([row["once"] for row in rows])} == {1}


async def test_the_log_holds_no_text_of_a_query(
    shared_index: SearchIndex, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await shared_index.search("secretword \x1b[31m")
    assert "secretword" not in caplog.text


async def test_two_tenants_with_the_same_text_find_their_own(library: SearchIndex) -> None:
    other = TenantId("other")
    await library.add("theirs", HANDBOOK["refunds"], tenant=other)
    for mode in ("keyword", "vector", "hybrid"):
        assert await library.found("goods thirty days", mode=mode, tenant=other) == ["theirs"]
        assert "theirs" not in await library.found("goods thirty days", mode=mode, limit=1000)
    assert await library.found("ERR_CONN_RESET", tenant=other) == ["theirs"]


@pytest.mark.parametrize("words", [["boiler"], ["boiler", "lamp", "acid"]])
async def test_the_sample_of_a_small_tenant_is_all_of_it(
    shared_index: SearchIndex, words: Sequence[str]
) -> None:
    query = analyze_query(" ".join(words))
    async with shared_index.database.tenant(TENANT, snapshot=True) as connection:
        counts, indexed = await read_word_statistics(connection, TENANT, "english", query, "none")
    assert counts.passages == len(HANDBOOK) and not indexed
    assert set(counts.frequencies.values()) == {1}
