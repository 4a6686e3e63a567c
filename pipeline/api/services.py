"""What the API stands on, handed in by the composition, and how a handler asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, cast

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant

from pipeline.api.allowed_hosts import AllowedHosts
from pipeline.api.first_load import LoadReport
from pipeline.api.limits import Limits, NoLimits
from pipeline.api.query_names import check_query_names
from pipeline.api.tenancy import Caller, OneTenant, Scope, Tenancy
from pipeline.api.waiting import Waiter
from pipeline.backlog import Backlog
from pipeline.embedding.protocol import EmbedLimits, Kind, Vector
from pipeline.intake import Accepting, NoIntake
from pipeline.liveness import Liveness
from pipeline.metrics import Metrics
from pipeline.model import Reader
from pipeline.process_health import ProcessHealth
from pipeline.rights import Principals
from pipeline.runtime.tenant_shares import TenantShares
from pipeline.search.answer import SearchAnswer
from pipeline.search.request import SearchRequest
from pipeline.store.collections import Collections
from pipeline.store.documents import Documents
from pipeline.store.operations import Operations
from pipeline.store.read_limits import credential

_CHECKS: set[Any] = set()
_TURN_S = 10.0  # that a request waits for its tenant's share


class Searcher(Protocol):
    """Answers searches; `pipeline.search.engine.SearchEngine` does."""

    async def search(self, reader: Reader, request: SearchRequest) -> SearchAnswer:
        """The answer, for who asks.

        Raises:
            OutageError: what the asked mode needs is away.
            RejectedError: the request makes no sense for this index.
        """
        ...


class TextEmbedder(Protocol):
    """Turns texts into vectors; `pipeline.embedding.service.EmbeddingService` does."""

    @property
    def model_id(self) -> str: ...

    @property
    def limits(self) -> EmbedLimits: ...

    async def embed_text(self, text: str, kind: Kind) -> Vector:
        """The vector of a text, soon; raises OutageError or RetryableError where none can be had."""
        ...


@dataclass(frozen=True, slots=True)
class ApiServices:
    """What the API stands on.

    Attributes:
        collections: made and taken away.
        intake: accepts changes.
        embedder: of texts that callers send; None: none runs here.
        first_load: what answers tell of it.
        health: what this process finds unavailable.
        reads: searches and documents are served here, so that readiness follows reads; otherwise it follows whether changes are taken.
        hosts: that requests may name, where the settings say which.
        cors_origins: of web pages that may read answers.
        shares: of tenants in the time of this process.
        url: of the database, for the connection that listens for ended changes; None: ask again and again instead.
    """

    engine: Searcher
    documents: Documents
    operations: Operations
    backlog: Backlog
    metrics: Metrics
    collections: Collections
    intake: Accepting = field(default_factory=NoIntake)
    url: str | None = None
    liveness: Liveness = field(default_factory=Liveness)
    tenancy: Tenancy = field(default_factory=OneTenant)
    limits: Limits = field(default_factory=NoLimits)
    embedder: TextEmbedder | None = None
    first_load: LoadReport = field(default_factory=LoadReport)
    health: ProcessHealth = field(default_factory=ProcessHealth)
    reads: bool = True
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    cors_origins: tuple[str, ...] = ()
    shares: TenantShares = field(default_factory=TenantShares)


async def _services(request: Request) -> ApiServices:
    return cast(ApiServices, request.app.state.services)


async def _waiter(request: Request) -> Waiter:
    return cast(Waiter, request.app.state.waiter)


def needs(*scopes: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """Who asks, having one of these scopes, and being let in; the edge lets go of it at the end of the request."""

    async def caller(request: Request) -> Caller:
        if hasattr(request.state, "caller"):  # before the body was read
            known = cast(Caller, request.state.caller)
            known.require(*scopes)
            return known
        services = cast(ApiServices, request.app.state.services)
        found = await services.tenancy.caller_of(request.headers)
        request.state.admission = await services.limits.admit(found)
        await services.shares.admit(found.tenant_id, "read" if "search" in scopes else "write", wait_s=_TURN_S)
        found.require(*scopes)
        check_query_names(request)
        request.state.caller = found
        credential.set(found.credential)
        return found

    _CHECKS.add(caller)
    return caller


def entrance_of(route: Dependant) -> Callable[[Request], Awaitable[Caller]] | None:
    """Return what `needs` made for a route, so that it can be asked before the body is read; None for a route that needs no caller."""
    for each in route.dependencies:
        if each.call in _CHECKS:
            return cast(Callable[[Request], Awaitable[Caller]], each.call)
        if (found := entrance_of(each)) is not None:
            return found
    return None


Asker = Annotated[Caller, Depends(needs("search"))]
Follower = Annotated[Caller, Depends(needs("search", "documents:write", "events:write"))]
Writer = Annotated[Caller, Depends(needs("documents:write"))]
Sender = Annotated[Caller, Depends(needs("events:write"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


OnBehalf = Annotated[
    Principals | None,
    Query(
        description="on whose behalf is asked; only for credentials with the scope `act_as`; may be given several times; printed characters, and nobody is called `*`"
    ),
]


async def _reading(caller: Asker, principals: OnBehalf = None) -> Reader:
    return caller.reader(principals)


Services = Annotated[ApiServices, Depends(_services)]
Waiting = Annotated[Waiter, Depends(_waiter)]
Reading = Annotated[Reader, Depends(_reading)]
"""For whom something is read, as the credential and the query of the request say."""
