"""What the API stands on, handed in by the composition, and how a handler asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Protocol, cast

from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError

from pipeline.api.limits import Limits, NoLimits
from pipeline.api.tenancy import Caller, OneTenant, Scope, Tenancy
from pipeline.api.waiting import Waiter
from pipeline.backlog import Backlog
from pipeline.intake import Accepting, NoIntake
from pipeline.liveness import Liveness
from pipeline.metrics import Metrics
from pipeline.model import Reader
from pipeline.rights import Principals
from pipeline.search.answer import SearchAnswer
from pipeline.search.request import SearchRequest
from pipeline.store.collections import Collections
from pipeline.store.documents import Documents
from pipeline.store.operations import Operations

_PRINCIPALS = "principals"


class Searcher(Protocol):
    """Answers searches; `pipeline.search.engine.SearchEngine` does."""

    async def search(self, reader: Reader, request: SearchRequest) -> SearchAnswer:
        """The answer, for who asks.

        Raises:
            OutageError: what the asked mode needs is away.
            RejectedError: the request makes no sense for this index.
        """
        ...


@dataclass(frozen=True, slots=True)
class ApiServices:
    """What the API stands on.

    Attributes:
        collections: made and taken away.
        intake: accepts changes.
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


async def _services(request: Request) -> ApiServices:
    return cast(ApiServices, request.app.state.services)


async def _waiter(request: Request) -> Waiter:
    return cast(Waiter, request.app.state.waiter)


def needs(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """Who asks, having this scope, and being let in; the edge lets go of it at the end of the request."""

    async def caller(request: Request) -> Caller:
        services = cast(ApiServices, request.app.state.services)
        found = await services.tenancy.caller_of(request.headers)
        if not hasattr(request.state, "admission"):
            request.state.admission = await services.limits.admit(found)
        found.require(scope)
        return found

    return caller


Asker = Annotated[Caller, Depends(needs("search"))]
Writer = Annotated[Caller, Depends(needs("documents:write"))]
Sender = Annotated[Caller, Depends(needs("events:write"))]
Admin = Annotated[Caller, Depends(needs("admin"))]


def check_query(query: Iterable[str]) -> None:
    """Go on only without a name that was meant to say on whose behalf is asked, such as `principals[]`: who is misheard would be shown too much.

    Args:
        query: the names in the query of a request.

    Raises:
        RequestValidationError: there is one.
    """
    for name in query:
        if name != _PRINCIPALS and name.strip().lower().startswith(_PRINCIPALS[:-1]):
            raise RequestValidationError(
                [{"loc": ("query", name), "msg": f"it is called {_PRINCIPALS}, once for each of them", "type": "value_error"}]
            )


async def _reading(
    request: Request,
    caller: Asker,
    principals: Annotated[
        Principals | None,
        Query(
            description="on whose behalf is asked; only for credentials with the scope `act_as`; may be given several times; printed characters, and nobody is called `*`"
        ),
    ] = None,
) -> Reader:
    check_query(request.query_params)
    return caller.reader(principals)


Services = Annotated[ApiServices, Depends(_services)]
Waiting = Annotated[Waiter, Depends(_waiter)]
Reading = Annotated[Reader, Depends(_reading)]
"""For whom something is read, as the credential and the query of the request say."""
