"""However much is wrong with a body, few errors are made of it, and the answer is small."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from livedex.connectors.webhook.presets import github, gitlab
from livedex.pipeline.api import cloudevents_binding as cloudevents
from livedex.pipeline.api.cloudevents_binding import CloudEvent, DeletedData, read_events
from livedex.pipeline.api.collections import NewCollection
from livedex.pipeline.api.document_uploads import NewDocument
from livedex.pipeline.api.embeddings import EmbeddingRequest
from livedex.pipeline.api.search import SearchRequest
from livedex.pipeline.http import problems
from livedex.pipeline.ingest.change_request import LinkedBody, PatchBody

MODELS = [
    SearchRequest,
    EmbeddingRequest,
    NewCollection,
    LinkedBody,
    PatchBody,
    NewDocument,
    CloudEvent,
    DeletedData,
    github._Push,
    gitlab._Push,
]
MANY = 1_000  # no list that is taken is refused for its length
HOSTILE: dict[str, Any] = {
    "texts": ["\x00"] * MANY,
    "halves": ["\ud800"] * MANY,
    "empty": [""] * MANY,
    "numbers": [1] * MANY,
    "nulls": [None] * MANY,
    "objects": [{}] * MANY,
    "lists": [[]] * MANY,
    "nested": [[[[1] * 9] * 9] * 9] * 9,
    "fields": {f"f{n}": [{}] for n in range(MANY)},
    "long": "y" * 100_000,
}


def error_count(model: type[BaseModel], body: Any) -> int:
    """How many errors are made of what is wrong with a body."""
    try:
        model.model_validate(body)
    except ValidationError as exc:
        return exc.error_count()
    return 0


@pytest.mark.parametrize("model", MODELS)
def test_few_errors_are_made_of_whatever_is_wrong(model: type[BaseModel]):
    fields = list(model.model_fields)
    bodies = [{name: value} for name in fields for value in HOSTILE.values()]
    bodies += [
        {**dict.fromkeys(fields, value), **{f"unknown{n}": 1 for n in range(60)}}
        for value in HOSTILE.values()
    ]
    for body in bodies:
        assert error_count(model, body) <= 60 + 3 * len(fields), list(body)[:3]


@pytest.mark.parametrize(
    "event",
    [
        {},
        None,
        [],
        {f"x{n}": n for n in range(60)},
        {
            "specversion": "1.0",
            "id": "1",
            "source": "s",
            "type": "livedex.document.changed",
            "subject": "a",
            "data": {"acl": [None] * 30},
        },
    ],
)
def test_of_a_batch_the_first_few_errors_are_made(event):
    with pytest.raises(RequestValidationError) as found:
        read_events(cloudevents.BATCH_MEDIA_TYPE, {}, orjson.dumps([event] * 1_000))
    assert 20 <= len(found.value.errors()) < 100


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
@pytest.mark.parametrize(
    "body",
    [
        {"acl": [None] * 10_000},
        {"acl": ["\n"] * 10_000},
        {f"{n:02}" + "\U0001f98a" * 300: n for n in range(60)},
        {f"{n:02}" + "~/" * 1_500: n for n in range(60)},
        {f"u{n}": n for n in range(12_000)},
        {"metadata": {str(n): [n] for n in range(12_000)}},
        {"acl": [[]] * 50_000},
        {"\x00" * 40_000: 1},
    ],
    ids=lambda body: next(iter(body))[:8].encode("unicode_escape").decode(),
)
async def test_the_answer_is_small_and_so_is_what_is_made_for_it(
    http, problem_of, monkeypatch, method, body
):
    made: list[int] = []
    hinted = problems.add_field_suggestions
    monkeypatch.setattr(
        problems,
        "add_field_suggestions",
        lambda errors, request: made.append(len(errors)) or hinted(errors, request),
    )
    answer = await http.request(
        method,
        "/v1/documents" if method == "POST" else "/v1/documents/a",
        json={"text": "x", **body},
    )
    assert len(problem_of(answer, 422)["errors"]) <= 20
    assert len(answer.content) < 50_000 and max(made) <= 80
