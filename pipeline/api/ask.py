"""POST /v1/ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Header
from pydantic import ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from livedex.pipeline.acl import Principals
from livedex.pipeline.api.schemas import AskAnswer, ok_response
from livedex.pipeline.api.services import Services, StatusWaiter, require_component
from livedex.pipeline.ask.ask_engine import Answer
from livedex.pipeline.ask.request import AskRequest as Ask
from livedex.pipeline.errors import LivedexError, NotFoundError, error_text
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.authentication import Caller, require_scope
from livedex.pipeline.http.bodies import StrictRoute
from livedex.pipeline.http.problems import problem_responses, validation_problem
from livedex.pipeline.ingest.sync_token import read_sync_token

router = APIRouter(route_class=StrictRoute, tags=["search"])

AskCaller = Annotated[Caller, Depends(require_scope("ask"))]
_EXAMPLE: dict[str, Any] = {"question": "how long may a parcel be returned", "limit": 5}
_EVENT_STREAM = "text/event-stream"


class AskRequest(Ask):
    """A question, optionally on behalf of principals."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    principals: Principals | None = Field(
        default=None,
        description="principals to search as; needs a credential with the scope `act_as`; an "
        "empty list searches as no principal",
    )


@router.post(
    "/v1/ask",
    name="ask",
    responses={
        **ok_response(AskAnswer, "The answer with its citations"),
        **problem_responses(401, 403, 413, 415, 422, 429, 503),
    },
)
async def ask(
    request: AskRequest,
    caller: AskCaller,
    services: Services,
    waiting: StatusWaiter,
    accept: Annotated[str | None, Header()] = None,
) -> Response:
    """Answer a question, with citations, from the documents that the caller may read.

    Without a chat model, the answer consists of sentences quoted from the documents. With
    `"stream": true`, or if the request accepts `text/event-stream`, the answer comes as server-sent
    events: `sources`, then `sentence` for each sentence, then `answer`.
    """
    engine = require_component(services.ask, "search", "this process does not answer questions")
    reader = caller.reader(request.principals)
    if request.after is not None:
        try:
            document_id, version = read_sync_token(caller.tenant_id, request.after)
        except NotFoundError as exc:
            return validation_problem([{"loc": ("after",), "msg": str(exc)}])
        await waiting.wait(caller.status_reader(reader), document_id, version, request.wait_s)
    if request.stream or _EVENT_STREAM in (accept or ""):
        events = engine.stream(reader, request)
        first = await anext(events)  # an error of the search becomes a problem response
        return StreamingResponse(
            _server_sent_events(first, events),
            media_type=_EVENT_STREAM,
            headers={"Cache-Control": "no-store"},
        )
    return JsonResponse(asdict(await engine.ask(reader, request)))


async def _server_sent_events(first: Any, events: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    yield _event(first)
    try:
        async for event in events:
            yield _event(event)
    except LivedexError as exc:
        yield _named("error", {"detail": error_text(exc)})


def _event(event: Any) -> bytes:
    if isinstance(event, Answer):
        return _named("answer", asdict(event))
    return _named("sources" if "sources" in event else "sentence", event)


def _named(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
