"""Subscribers: list and resume those of a tenant."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.responses import Response

from livedex.pipeline.api.schemas import ok_response
from livedex.pipeline.api.services import Admin, AdministrationService
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.problems import problem_responses

router = APIRouter(tags=["administration"])

_READ_PROBLEMS = problem_responses(401, 403, 422, 429, 503)
_ITEM_PROBLEMS = problem_responses(401, 403, 404, 422, 429, 503)
SubscriberName = Annotated[str, Path(max_length=200, description="name of a subscriber")]


class SubscriberSummary(BaseModel):
    """A subscriber to changes of documents."""

    name: str
    tenant: str
    events: list[str]
    collections: list[str]
    reads: bool = Field(description="whether it reads its notifications instead of receiving them")
    state: str
    waiting: int
    oldest_s: float
    problem: str | None


class Subscribers(BaseModel):
    """Every subscriber of the tenant."""

    subscribers: list[SubscriberSummary]


@router.get(
    "/v1/subscribers",
    name="list_subscribers",
    responses={**ok_response(Subscribers, "Every subscriber"), **_READ_PROBLEMS},
)
async def subscribers(caller: Admin, service: AdministrationService) -> Response:
    """List the subscribers with their pending notifications and problems."""
    return JsonResponse({"subscribers": await service.subscribers(caller.tenant_id)})


@router.post(
    "/v1/subscribers/{name}/resume",
    name="resume_subscriber",
    responses={**ok_response(SubscriberSummary, "The subscriber"), **_ITEM_PROBLEMS},
)
async def resume(name: SubscriberName, caller: Admin, service: AdministrationService) -> Response:
    """Resume deliveries at once, after a subscriber was disabled or paused by failures."""
    return JsonResponse(await service.resume_subscriber(caller.tenant_id, name))
