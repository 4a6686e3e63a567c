"""`did_you_mean`: what is suggested, where it is used, and that it tells nothing of documents that
the reader may not read.
"""

from __future__ import annotations

import pytest

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.word_statistics import refresh_word_statistics
from livedex.pipeline.store.database import Database
from tests.support.builders.search_corpus import TENANT, SearchIndex

ANNA = frozenset({"anna"})


async def fill(database: Database) -> SearchIndex:
    """See `tests/integration/conftest.py`."""
    made = await SearchIndex.open(database)
    await made.add("kitchen", "The Espresso machine needs configuration before it returns steam.")
    for n in range(4):
        await made.add(f"secret{n}", f"Project zanzibar is a merger, part {n}.", acl=("board",))
    await made.add("gone", "A wonderful xylophone concert.")
    await made.delete("gone")
    await made.add("theirs", "A kaleidoscope of others.", tenant=TenantId("other"))
    await refresh_word_statistics(database, TENANT)
    return made


@pytest.mark.parametrize("principals", [None, ANNA])
@pytest.mark.parametrize(
    ("query", "suggested"),
    [
        ("espreso", "espresso"),
        ("Expresso machine", "espresso machine"),
        ("how is the confguration", "how is the configuration"),
        ('"espreso machine"', '"espresso machine"'),
        ("machien", "machine"),
        ("espresso", None),
        ("machines", None),
        ("xylophon", None),
        ("kaleidoscop", None),
        ("ERR_CONN_RESET", None),
        ("qqqqqqqq", None),
        ("stem", "steam"),
        ("测试测试", None),
    ],
)
async def test_a_word_that_no_document_holds_is_corrected(
    shared_index: SearchIndex, query: str, suggested: str | None, principals: frozenset[str] | None
) -> None:
    for mode in ("keyword", "hybrid"):
        answer = await shared_index.ask(query, mode=mode, principals=principals)
        assert answer.did_you_mean == suggested
        assert answer.as_object().get("did_you_mean") == suggested


async def test_it_is_used_where_nothing_is_found(shared_index: SearchIndex) -> None:
    assert await shared_index.found("espreso", mode="keyword") == ["kitchen"]
    assert await shared_index.found("qqqqqqqq", mode="keyword") == []
    found = await shared_index.ask("steam espreso", mode="keyword")
    assert found.hits and found.did_you_mean == "steam espresso"
    assert found.hits[0]["document_id"] == "kitchen"


async def test_a_long_question_is_corrected_only_if_it_finds_nothing(
    shared_index: SearchIndex,
) -> None:
    known = "so how is the steam made by such an espreso thing"
    assert (await shared_index.ask(known, mode="keyword")).did_you_mean is None
    unknown = "aa bb cc dd ee ff gg hh ii espreso"
    answer = await shared_index.ask(unknown, mode="keyword")
    assert answer.did_you_mean and answer.hits


async def test_words_of_documents_that_may_not_be_read_are_as_if_they_were_not_there(
    shared_index: SearchIndex,
) -> None:
    for mode in ("keyword", "hybrid"):
        for query in ("zanzibra", "zanzibar", "projekt zanzibor", "mergre"):
            answer = await shared_index.ask(query, mode=mode, principals=ANNA)
            assert answer.did_you_mean is None
    assert (await shared_index.ask("zanzibra")).did_you_mean == "zanzibar"
    board = await shared_index.ask("zanzibra", principals=frozenset({"board"}))
    assert board.did_you_mean == "zanzibar"


async def test_a_word_of_hidden_documents_is_corrected_like_any_unknown_one(
    library: SearchIndex,
) -> None:
    await library.add("public", "Travel to Zanzibat is free.")
    answer = await library.ask("zanzibar", mode="keyword", principals=ANNA)
    assert answer.did_you_mean == "zanzibat"
    assert (await library.ask("zanzibar", mode="keyword")).did_you_mean is None
