"""Administration: status, sources, dead letters, API keys, subscribers and settings of a tenant."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field
from pydantic.functional_validators import AfterValidator
from starlette.responses import Response

from livedex.pipeline.api.schemas import ok_response
from livedex.pipeline.api.services import Admin, AdministrationService
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.bodies import StrictRoute
from livedex.pipeline.http.problems import problem_responses

router = APIRouter(tags=["administration"])
write_router = APIRouter(route_class=StrictRoute, tags=["administration"])

_READ_PROBLEMS = problem_responses(401, 403, 422, 429, 503)
_ITEM_PROBLEMS = problem_responses(401, 403, 404, 422, 429, 503)
_DEAD_LETTER = "/v1/dead/{letter_id}"

LetterId = Annotated[str, Path(max_length=200, description="id from the list of dead letters")]
KeyId = Annotated[str, Path(max_length=200, description="id from the list of keys")]
SubscriberName = Annotated[str, Path(max_length=200, description="name of a subscriber")]
Scope = Literal[
    "search", "ask", "documents:write", "documents:all", "events:write", "act_as", "admin"
]


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
    """The state of the index. Stages and health are those of the whole installation."""

    documents: dict[str, int] = Field(description="documents of the tenant by state")
    stages: dict[str, StageBacklog]
    health: dict[str, str] = Field(description="`ok`, or `down: ` and the reason")
    dead: int = Field(description="dead letters of the tenant")
    embedding: EmbeddingBacklog
    sources: list[SourceStatus]


class Sources(BaseModel):
    """Every source of the tenant."""

    sources: list[SourceStatus]


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


class DeadLetters(BaseModel):
    """The dead letters of the tenant, oldest first."""

    dead: list[DeadLetterSummary]


class ReplayedLetter(BaseModel):
    """A dead letter that was sent again, or removed because a newer version exists (`stale`)."""

    id: str
    replayed: bool
    stale: bool


class ApiKeySummary(BaseModel):
    """An API key without its secret."""

    id: str
    tenant: str
    name: str
    scopes: list[str]
    state: Literal["active", "expired", "revoked"]
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class CreatedApiKey(ApiKeySummary):
    """A new key. It cannot be shown again."""

    key: str


class ApiKeys(BaseModel):
    """The API keys of the tenant, oldest first, with revoked ones."""

    keys: list[ApiKeySummary]


def _printable(name: str) -> str:
    if not name.strip() or not name.isprintable():
        raise ValueError("a name is 1 to 200 printable characters")
    return name


class NewApiKey(BaseModel):
    """An API key to be created."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)] = Field(
        description="label that says who uses the key"
    )
    scopes: list[Scope] = Field(min_length=1, max_length=20)
    expires_in_days: float | None = Field(
        None, gt=0, le=36_500, description="default: the key never expires"
    )


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


class SettingValue(BaseModel):
    """A setting and its value. Secrets are masked."""

    name: str
    value: str | int | float | bool | None
    is_default: bool
    default: str | None
    description: str


class SettingValues(BaseModel):
    """Every setting of the process that answers."""

    settings: list[SettingValue]


@router.get(
    "/v1/status",
    name="get_status",
    responses={**ok_response(Status, "The state of the index"), **_READ_PROBLEMS},
)
async def status(caller: Admin, service: AdministrationService) -> Response:
    """Return documents by state, the backlog of each stage, health, dead letters and sources."""
    return JsonResponse(await service.status(caller.tenant_id))


@router.get(
    "/v1/sources",
    name="list_sources",
    responses={**ok_response(Sources, "Every source"), **_READ_PROBLEMS},
)
async def sources(caller: Admin, service: AdministrationService) -> Response:
    """List the sources with their last scan, withheld deletes and orphaned documents."""
    return JsonResponse({"sources": await service.sources(caller.tenant_id)})


@router.get(
    "/v1/dead",
    name="list_dead_letters",
    responses={**ok_response(DeadLetters, "Every dead letter"), **_READ_PROBLEMS},
)
async def dead_letters(caller: Admin, service: AdministrationService) -> Response:
    """List the dead letters, oldest first, without their bytes."""
    return JsonResponse({"dead": await service.dead_letters(caller.tenant_id)})


@router.get(
    _DEAD_LETTER,
    name="get_dead_letter",
    responses={**ok_response(DeadLetterDetails, "The dead letter"), **_ITEM_PROBLEMS},
)
async def dead_letter(
    letter_id: LetterId, caller: Admin, service: AdministrationService
) -> Response:
    """Return a dead letter with its exact bytes."""
    return JsonResponse(await service.dead_letter(caller.tenant_id, letter_id))


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
    return JsonResponse(await service.replay(caller.tenant_id, letter_id), 202)


@router.delete(
    _DEAD_LETTER,
    name="drop_dead_letter",
    status_code=204,
    responses={204: {"description": "It was dropped"}, **_ITEM_PROBLEMS},
)
async def drop(letter_id: LetterId, caller: Admin, service: AdministrationService) -> Response:
    """Drop a dead letter permanently. Its document keeps the version synced last."""
    await service.drop(caller.tenant_id, letter_id)
    return Response(status_code=204)


@router.get(
    "/v1/keys",
    name="list_keys",
    responses={**ok_response(ApiKeys, "Every key"), **_READ_PROBLEMS},
)
async def keys(caller: Admin, service: AdministrationService) -> Response:
    """List the API keys of the tenant without their secrets."""
    return JsonResponse({"keys": await service.keys(caller.tenant_id)})


@write_router.post(
    "/v1/keys",
    name="create_key",
    status_code=201,
    responses={
        201: {"model": CreatedApiKey, "description": "The key; it cannot be shown again"},
        **problem_responses(401, 403, 413, 415, 422, 429, 503),
    },
)
async def create_key(wanted: NewApiKey, caller: Admin, service: AdministrationService) -> Response:
    """Create an API key of the tenant."""
    made = await service.create_key(
        caller.tenant_id, wanted.name, wanted.scopes, wanted.expires_in_days
    )
    return JsonResponse(made, 201)


@router.delete(
    "/v1/keys/{key_id}",
    name="revoke_key",
    status_code=204,
    responses={204: {"description": "It is revoked"}, **_ITEM_PROBLEMS},
)
async def revoke_key(key_id: KeyId, caller: Admin, service: AdministrationService) -> Response:
    """Revoke an API key. Processes stop accepting it within 5 seconds."""
    await service.revoke_key(caller.tenant_id, key_id)
    return Response(status_code=204)


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


@router.get(
    "/v1/settings",
    name="list_settings",
    responses={**ok_response(SettingValues, "Every setting"), **_READ_PROBLEMS},
)
async def settings(caller: Admin, service: AdministrationService) -> Response:
    """List the settings of the process that answers. Secrets are masked."""
    return JsonResponse({"settings": service.settings()})
