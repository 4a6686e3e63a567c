"""The query syntax `web` in a real index: conditions hold for the whole result."""

from __future__ import annotations

import random
import time

import pytest

from livedex.pipeline.store.database import Database
from tests.support.builders.search_corpus import SearchIndex

TEXTS = {
    "beside": "Somebody looks for the needle haystack pair in a barn, again and again, while "
    "others walk about and talk of other things at length.",
    "apart": "A needle is not in this haystack.",
    "inflected": "Needles haystacks.",
    "tea": "Green tea with lemon.",
    "coffee": "Green coffee with lemon and tea.",
    "coffees": "Coffees of the world, and lemon.",
    "retry": "The retrying client retries with a delay.",
    "happy": "They lived happily.",
    "quote": "To be or not to be, that is the question.",
    "code": "Set max_retry_count in C++ and C.",
    "plainc": "Set it in C only.",
    "email": "Write an e-mail to the office.",
    "chinese": "这是一个测试，说明如何部署方案。",
    "accents": "Le café crème est chaud.",
}


async def fill(database: Database) -> SearchIndex:
    """See `tests/integration/conftest.py`."""
    made = await SearchIndex.open(database)
    for name, text in TEXTS.items():
        await made.add(name, text)
    return made


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"needle haystack"', {"beside"}),
        ('"haystack needle"', set()),
        ('"NEEDLE, haystack" barn', {"beside"}),
        ('"green tea" OR "green coffee"', {"tea", "coffee"}),
        ("retr*", {"retry", "code"}),
        ("happily*", {"happy"}),
        ("happ*", {"happy"}),
        ("max* C", {"code"}),
        ('"max retry count"', {"code"}),
        ('"测试"', {"chinese"}),
        ('"cafe creme"', {"accents"}),
        ("caf*", {"accents"}),
        ('lemon "green tea" -coffee', {"tea"}),
        ("tea OR coffee -green", {"coffees"}),
        ("-tea", set()),
    ],
)
async def test_operators_hold_for_every_hit(
    shared_index: SearchIndex, mode: str, query: str, found: set[str]
) -> None:
    hits = await shared_index.found(query, mode=mode, query_syntax="web", limit=50)
    assert set(hits) == found


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
@pytest.mark.parametrize(
    ("query", "never", "ever"),
    [
        ("lemon -coffee", {"coffee", "coffees"}, {"tea"}),
        ("lemon -coffees", {"coffee", "coffees"}, {"tea"}),
        ("set -C++", {"code"}, {"plainc"}),
        ("office -email", {"email"}, set()),
        ("question -the", {"quote", "beside", "retry", "email", "coffees"}, set()),
        ('needle -"needle haystack"', {"beside"}, {"apart"}),
        ("client -retr*", {"retry", "code"}, set()),
        ("方案 -测试", {"chinese"}, set()),
    ],
)
async def test_an_excluded_word_never_shows(
    shared_index: SearchIndex, mode: str, query: str, never: set[str], ever: set[str]
) -> None:
    hits = set(await shared_index.found(query, mode=mode, query_syntax="web", limit=50))
    assert not hits & never and hits >= ever


async def test_a_phrase_of_stop_words_is_compared_with_the_text(shared_index: SearchIndex) -> None:
    found = await shared_index.found('"to be or not to be"', query_syntax="web", limit=50)
    assert found == ["quote"]


async def test_a_phrase_and_an_exclusion_are_words_in_the_plain_syntax(
    shared_index: SearchIndex,
) -> None:
    found = await shared_index.found('"needle haystack"', mode="keyword")
    assert set(found) == {"beside", "apart", "inflected"}
    assert "coffee" in await shared_index.found("lemon -coffee", mode="keyword")


async def test_a_condition_fills_the_limit_beyond_the_nearest(library: SearchIndex) -> None:
    await library.add("many", [f"harbour signal velvet {n}" for n in range(150)])
    await library.add("few", [f"harbour signal of the copper meadow {n}" for n in range(5)])
    found = await library.found(
        "harbour signal -velvet", query_syntax="web", candidates=10, limit=5, mode="vector"
    )
    assert "few" in found and "many" not in found


async def test_generated_queries_are_answered_in_time(shared_index: SearchIndex) -> None:
    rng = random.Random(17)
    pieces = (
        '" - OR * -" "needle haystack" \x01 \u200b -tea retr* ( ) & | ! :* <-> \\ '
        "' %s $1 é ـ 测试 ไทย \u0301 🦊 𐐔 a_b C++ ISO-27001 maxRetryCount &amp; "
        "<b> = @ ~ ` { } [ ] ^ needle OR OR"
    ).split(" ")
    slowest = 0.0
    for n in range(300):
        size = rng.choice((1, 2, 4, 12, 40)) if n % 25 else 2_000
        glue = rng.choice((" ", "", "  "))
        query = glue.join(rng.choices(pieces, k=size))[:10_000]
        if not query.strip() or not any(c.isprintable() and not c.isspace() for c in query):
            continue
        for syntax in ("plain", "web"):
            begin = time.perf_counter()
            await shared_index.search(
                f"{query} x", query_syntax=syntax, mode=rng.choice(("hybrid", "keyword", "vector"))
            )
            slowest = max(slowest, time.perf_counter() - begin)
    assert slowest < 5  # a second where nothing else runs
