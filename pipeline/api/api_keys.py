"""API keys: list, create and revoke those of a tenant."""

from __future__ import annotations

from typing import Annotated, Literal

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
KeyId = Annotated[str, Path(max_length=200, description="id from the list of keys")]
Scope = Literal[
    "search", "ask", "documents:write", "documents:all", "events:write", "act_as", "admin"
]


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
        raise ValueError("a name must have 1 to 200 printable characters")
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
    responses={204: {"description": "The key is revoked"}, **_ITEM_PROBLEMS},
)
async def revoke_key(key_id: KeyId, caller: Admin, service: AdministrationService) -> Response:
    """Revoke an API key. Processes stop accepting it within 5 seconds."""
    await service.revoke_key(caller.tenant_id, key_id)
    return Response(status_code=204)
