"""Questions through the API down to a real database, with the embedder away."""

from __future__ import annotations

import json

import pytest

from livedex.pipeline.ask.prompt import REFUSAL


async def test_an_answer_cites_exactly_the_text_that_it_copies(http, filling):
    text = "The toner is in the cellar. Holidays are long."
    await filling.sync("docs/a", 7, text)
    answer = (await http.post("/v1/ask", json={"question": "Where is the toner?"})).json()
    [citation] = answer["citations"]
    assert answer["answer"] == "The toner is in the cellar. [1]"
    assert text[citation["start"] : citation["end"]] == citation["content"]
    assert (citation["document_id"], citation["version"], citation["number"]) == ("docs/a", 7, 1)
    assert answer["degraded"] == ["vector"] and answer["model"] == "extractive"


async def test_a_stream_says_the_same(http, filling):
    await filling.sync("docs/a", 7, "The toner is in the cellar.")
    asked = {"question": "Where is the toner?"}
    plain = (await http.post("/v1/ask", json=asked)).json()
    for body, headers in (
        ({**asked, "stream": True}, {}),
        (asked, {"accept": "text/event-stream"}),
    ):
        found = await http.post("/v1/ask", json=body, headers=headers)
        events = [part.split("\ndata: ") for part in found.text.strip().split("\n\n")]
        assert [name for name, _ in events] == [
            "event: sources",
            "event: sentence",
            "event: answer",
        ]
        whole = json.loads(events[-1][1])
        assert {**whole, "took_ms": 0} == {**plain, "took_ms": 0}


async def test_without_a_source_the_answer_is_a_refusal(http):
    answer = (await http.post("/v1/ask", json={"question": "anything"})).json()
    assert (answer["answer"], answer["citations"]) == (REFUSAL, [])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"question": " "},
        {"question": 5},
        {"question": "a", "limit": 51},
        {"question": "a", "cursor": ""},
        {"question": "a", "history": [{"role": "system", "content": "x"}]},
        {"question": "a", "history": [{"role": "user", "content": "x"}] * 21},
        {"question": "a", "max_tokens": 1},
        {"question": "a", "questions": "b"},
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(http, body):
    assert (await http.post("/v1/ask", json=body)).status_code == 422
