"""POST /v1/embeddings, and how far the first load is in answers to searches."""

from types import SimpleNamespace

import pytest

from livedex.pipeline.api.embeddings import MAX_TEXT_CHARACTERS
from livedex.pipeline.errors import OutageError, RetryableError
from livedex.pipeline.search.answer import SearchResult


@pytest.mark.parametrize(
    ("body", "kind"),
    [({"text": "refunds"}, "query"), ({"text": "refunds", "kind": "document"}, "document")],
)
async def test_a_text_comes_back_as_the_vector_of_the_model_in_use(http, embedder, body, kind):
    answer = await http.post("/v1/embeddings", json=body)
    assert answer.status_code == 200
    found = answer.json()
    assert set(found) == {"model", "dimensions", "embedding"}
    assert (found["model"], found["dimensions"], found["embedding"]) == (
        "test:model",
        2,
        pytest.approx([0.6, 0.8]),
    )
    assert embedder.asked == [("refunds", kind)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": ""},
        {"text": " \n\t\u200b"},
        {"text": 7},
        {"text": ["a"]},
        {"text": None},
        {"text": "a", "kind": "passage"},
        {"text": "a", "kind": None},
        {"text": "a", "input": "a"},
        {"input": "a"},
        {"text": "a", "model": "other"},
        {"text": "x" * 20_001},
        {"text": "x" * (MAX_TEXT_CHARACTERS + 1)},
        [],
        "a",
    ],
    ids=lambda body: str(body)[:40],
)
async def test_what_makes_no_sense_is_refused_before_the_model(http, embedder, problem_of, body):
    assert problem_of(await http.post("/v1/embeddings", json=body), 422)["errors"]
    assert embedder.asked == []


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(OutageError("embedder", "secret", retry_after_s=7), "7"), (RetryableError("secret"), "1")],
)
async def test_a_model_that_is_away_is_503_with_the_time_to_ask_again(
    http, embedder, problem_of, error, seconds
):
    embedder.error = error
    answer = await http.post("/v1/embeddings", json={"text": "refunds"})
    assert "secret" not in problem_of(answer, 503)["detail"]
    assert answer.headers["retry-after"] == seconds


async def test_answers_say_how_far_the_first_load_is_until_it_has_ended(http, engine, first_load):
    engine.answer = SearchResult([], [], 1.0)

    async def indexing():
        return (await http.post("/v1/search", json={"query": "a"})).json().get("indexing", "absent")

    assert await indexing() == "absent"
    first_load.expect()
    assert await indexing() == {"done": 0, "found": 0}
    load = SimpleNamespace(found=7, done=3, is_over=False)
    first_load.watch(load)
    assert await indexing() == {"done": 3, "found": 7}
    load.is_over = True
    assert await indexing() == "absent"
