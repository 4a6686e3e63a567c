"""Dead letters: list, read, replay and drop those of a tenant."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from livedex.pipeline.api.schemas import ok_response
from livedex.pipeline.api.services import Admin, AdministrationService, PageParameters
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.problems import problem_responses

router = APIRouter(tags=["administration"])

_READ_PROBLEMS = problem_responses(401, 403, 422, 429, 503)
_ITEM_PROBLEMS = problem_responses(401, 403, 404, 422, 429, 503)
_DEAD_LETTER = "/v1/dead/{letter_id}"

Stage = Literal["chunk", "embed", "sync", "notify"]
LetterId = Annotated[str, Path(max_length=200, description="id from the list of dead letters")]


class DeadLetterSummary(BaseModel):
    """An event that could not be processed."""

    id: str
    stage: str
    document_id: str | None
    reason: str
    detail: str = Field(description="what is wrong, and what to do")
    attempts: int
    at: str | None
    size_bytes: int


class DeadLetterDetails(DeadLetterSummary):
    """A dead letter with its exact bytes."""

    tenant: str
    version: int | None
    topic: str
    place: dict[str, Any]
    headers: dict[str, Any]
    payload: str
    payload_encoding: Literal["utf-8", "base64"]


class DeadLetterPage(BaseModel):
    """Dead letters of the tenant, oldest first."""

    dead: list[DeadLetterSummary]
    next_cursor: str | None = Field(description="cursor of the next page; null on the last page")


class ReplayedLetter(BaseModel):
    """A dead letter that was sent again, or removed because a newer version exists (`stale`)."""

    id: str
    replayed: bool
    stale: bool


@router.get(
    "/v1/dead",
    name="list_dead_letters",
    responses={**ok_response(DeadLetterPage, "A page"), **_READ_PROBLEMS},
)
async def dead_letters(
    caller: Admin,
    service: AdministrationService,
    page: PageParameters,
    stage: Annotated[Stage | None, Query(description="only dead letters of this stage")] = None,
) -> Response:
    """List the dead letters, oldest first, without their bytes, page by page."""
    found = await service.dead_letters(caller, stage=stage, limit=page.limit, cursor=page.cursor)
    return JsonResponse(found)


@router.get(
    _DEAD_LETTER,
    name="get_dead_letter",
    responses={**ok_response(DeadLetterDetails, "The dead letter"), **_ITEM_PROBLEMS},
)
async def dead_letter(
    letter_id: LetterId, caller: Admin, service: AdministrationService
) -> Response:
    """Return a dead letter with its exact bytes."""
    return JsonResponse(await service.dead_letter(caller, letter_id))


@router.post(
    f"{_DEAD_LETTER}/replay",
    name="replay_dead_letter",
    status_code=202,
    responses={
        202: {"model": ReplayedLetter, "description": "It was sent again, or is stale"},
        **_ITEM_PROBLEMS,
    },
)
async def replay(letter_id: LetterId, caller: Admin, service: AdministrationService) -> Response:
    """Process a dead letter again, byte for byte. If it fails again, it returns to the list."""
    return JsonResponse(await service.replay(caller, letter_id), 202)


@router.delete(
    _DEAD_LETTER,
    name="drop_dead_letter",
    status_code=204,
    responses={204: {"description": "It was dropped"}, **_ITEM_PROBLEMS},
)
async def drop(letter_id: LetterId, caller: Admin, service: AdministrationService) -> Response:
    """Drop a dead letter permanently. Its document keeps the version synced last."""
    await service.drop(caller, letter_id)
    return Response(status_code=204)
