"""Administration: the status, the sources and the settings, as a tenant may see them."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from livedex.pipeline.api.schemas import ok_response
from livedex.pipeline.api.services import Admin, AdministrationService
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.problems import problem_responses

router = APIRouter(tags=["administration"])

_READ_PROBLEMS = problem_responses(401, 403, 422, 429, 503)


class StageBacklog(BaseModel):
    """Events that wait for a stage; null if the broker does not answer."""

    waiting: int | None
    oldest_s: float | None


class EmbeddingBacklog(BaseModel):
    """Passages and documents that lack vectors of the model in use."""

    model: str
    left: int
    documents: int


class SourceStatus(BaseModel):
    """A watched folder, or a system that sends documents."""

    name: str
    tenant: str
    kind: Literal["folder", "sent"]
    path: str | None
    state: Literal["ok", "orphaned", "unwatched"]
    documents: int
    withheld_deletes: int
    scanned_at: str | None
    reported_at: str | None
    left_out: dict[str, Any]


class Status(BaseModel):
    """The state of the index.

    Stages and health are those of the whole installation. If it has other tenants, a key is shown
    neither the backlog of stages that all tenants share nor reasons.
    """

    documents: dict[str, int] = Field(description="documents of the tenant by state")
    stages: dict[str, StageBacklog] = Field(
        description="`chunk`, `embed`, `sync` and `notify`; only `notify` if the installation has "
        "other tenants"
    )
    health: dict[str, str] = Field(
        description="`ok`, or `down: ` and the reason; `ok` or `down` if the installation has "
        "other tenants"
    )
    dead: int = Field(description="dead letters of the tenant")
    embedding: EmbeddingBacklog
    sources: list[SourceStatus]


class Sources(BaseModel):
    """Every source of the tenant."""

    sources: list[SourceStatus]


class SettingValue(BaseModel):
    """A setting and its value.

    Secrets are masked. If the installation has other tenants, so are texts that were set, such as
    addresses and folders.
    """

    name: str
    value: str | int | float | bool | None
    is_default: bool
    default: str | None
    description: str


class SettingValues(BaseModel):
    """Every setting of the process that responds."""

    settings: list[SettingValue]


@router.get(
    "/v1/status",
    name="get_status",
    responses={**ok_response(Status, "The state of the index"), **_READ_PROBLEMS},
)
async def status(caller: Admin, service: AdministrationService) -> Response:
    """Return documents by state, the backlog of each stage, health, dead letters and sources."""
    return JsonResponse(await service.status(caller))


@router.get(
    "/v1/sources",
    name="list_sources",
    responses={**ok_response(Sources, "Every source"), **_READ_PROBLEMS},
)
async def sources(caller: Admin, service: AdministrationService) -> Response:
    """List the sources with their last scan, withheld deletes and orphaned documents."""
    return JsonResponse({"sources": await service.sources(caller.tenant_id)})


@router.get(
    "/v1/settings",
    name="list_settings",
    responses={**ok_response(SettingValues, "Every setting"), **_READ_PROBLEMS},
)
async def settings(caller: Admin, service: AdministrationService) -> Response:
    """List the settings of the process that responds. Secrets are masked."""
    return JsonResponse({"settings": await service.settings(caller)})
