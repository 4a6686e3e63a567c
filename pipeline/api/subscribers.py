"""Subscribers: list, create, resume and delete those of a tenant."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.functional_validators import AfterValidator
from starlette.responses import Response

from livedex.pipeline.api.schemas import ok_response
from livedex.pipeline.api.services import Admin, AdministrationService
from livedex.pipeline.fetch.urls import parse_url
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.bodies import StrictRoute
from livedex.pipeline.http.problems import problem_responses
from livedex.pipeline.model import NO_NUL_PATTERN, TenantId
from livedex.pipeline.settings.subscriber import NotificationKind, decode_secret
from livedex.pipeline.store.page_cursor import is_storable
from livedex.pipeline.store.registered_subscriber_store import RegisteredSubscriber
from livedex.pipeline.store.subscriber_store import SubscriberConfig

router = APIRouter(tags=["administration"])
write_router = APIRouter(route_class=StrictRoute, tags=["administration"])

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
    origin: Literal["settings", "api"] = Field(
        description="`settings`: livedex.toml names it; `api`: it was created by a request"
    )
    state: str
    waiting: int
    oldest_s: float
    problem: str | None


class Subscribers(BaseModel):
    """Every subscriber of the tenant."""

    subscribers: list[SubscriberSummary]


class CreatedSubscriber(SubscriberSummary):
    """A new subscriber. Its secret cannot be shown again."""

    secret: str | None = Field(
        description="signs what is sent, by Standard Webhooks; null without a `url`"
    )


def _storable(name: str) -> str:
    if not is_storable(name):
        raise ValueError("a name holds no NUL")
    return name


def _plain_name(name: str) -> str:
    if not name.strip() or not name.isprintable() or "/" in name:
        raise ValueError("a name is 1 to 200 printable characters without a slash")
    return name


def _public_url(url: str) -> str:
    try:
        scheme = parse_url(url).scheme
    except ValueError as exc:
        raise ValueError(f"no URL that can be notified: {exc}") from None
    if scheme != "https":
        raise ValueError("notifications go over https; livedex.toml can name a private host")
    return url


def _signing_secret(secret: str) -> str:
    decode_secret(secret)
    return secret


CollectionName = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": NO_NUL_PATTERN})
]


class NewSubscriber(BaseModel):
    """A subscriber to be created."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_plain_name)]
    url: (
        Annotated[
            str,
            Field(max_length=2000, json_schema_extra={"pattern": "^[Hh][Tt][Tt][Pp][Ss]://"}),
            AfterValidator(_public_url),
        ]
        | None
    ) = Field(
        None,
        description="https URL of a public host; without it the subscriber reads its notifications",
    )
    secret: (
        Annotated[
            str,
            Field(max_length=200, json_schema_extra={"pattern": "^(whsec_)?[A-Za-z0-9+/]{32,}=*$"}),
            AfterValidator(_signing_secret),
        ]
        | None
    ) = Field(None, description="`whsec_` and 24 to 64 bytes in Base64; default: a new one")
    events: list[NotificationKind] = Field(
        ["synced", "deleted", "dead"], min_length=1, max_length=20
    )
    collections: list[Annotated[CollectionName, AfterValidator(_storable)]] = Field(
        [], max_length=100, description="only documents in, entering or leaving these; empty: all"
    )
    attempts: int = Field(10, ge=1, le=10, description="before a notification is a dead letter")
    keep_days: float = Field(7, gt=0, le=365, description="days that a notification is kept")

    @model_validator(mode="after")
    def _whole(self) -> NewSubscriber:
        if self.url is None:
            for field in ("secret", "attempts"):
                if field in self.model_fields_set and getattr(self, field) is not None:
                    raise ValueError(f"{field} is of no use without a url")
        return self

    def stored(self, tenant_id: TenantId) -> RegisteredSubscriber:
        """Return the subscriber as it is stored."""
        return RegisteredSubscriber(
            SubscriberConfig(
                tenant_id,
                self.name,
                tuple(dict.fromkeys(self.events)),
                tuple(dict.fromkeys(self.collections)),
                self.url is None,
                self.keep_days,
            ),
            self.url,
            self.secret,
            self.attempts,
        )


@router.get(
    "/v1/subscribers",
    name="list_subscribers",
    responses={**ok_response(Subscribers, "Every subscriber"), **_READ_PROBLEMS},
)
async def subscribers(caller: Admin, service: AdministrationService) -> Response:
    """List the subscribers with their pending notifications and problems."""
    return JsonResponse({"subscribers": await service.subscribers(caller.tenant_id)})


@write_router.post(
    "/v1/subscribers",
    name="create_subscriber",
    status_code=201,
    responses={
        201: {
            "model": CreatedSubscriber,
            "description": "The subscriber; its secret cannot be shown again",
        },
        **problem_responses(401, 403, 409, 413, 415, 422, 429, 503),
    },
)
async def create(wanted: NewSubscriber, caller: Admin, service: AdministrationService) -> Response:
    """Create a subscriber. It is notified of changes from now on, after a few seconds."""
    return JsonResponse(await service.create_subscriber(wanted.stored(caller.tenant_id)), 201)


@router.delete(
    "/v1/subscribers/{name}",
    name="delete_subscriber",
    status_code=204,
    responses={
        204: {"description": "It was deleted"},
        **problem_responses(401, 403, 404, 409, 422, 429, 503),
    },
)
async def delete(name: SubscriberName, caller: Admin, service: AdministrationService) -> Response:
    """Delete a subscriber with its pending notifications.

    A subscriber that livedex.toml names is refused with 409: remove it there.
    """
    await service.delete_subscriber(caller.tenant_id, name)
    return Response(status_code=204)


@router.post(
    "/v1/subscribers/{name}/resume",
    name="resume_subscriber",
    responses={**ok_response(SubscriberSummary, "The subscriber"), **_ITEM_PROBLEMS},
)
async def resume(name: SubscriberName, caller: Admin, service: AdministrationService) -> Response:
    """Resume deliveries at once, after a subscriber was disabled or paused by failures."""
    return JsonResponse(await service.resume_subscriber(caller.tenant_id, name))
