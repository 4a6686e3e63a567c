"""Services that the API uses, and FastAPI dependencies for its routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, cast

from fastapi import Depends, Query, Request

from livedex.pipeline.acl import Principals
from livedex.pipeline.api.initial_load_report import InitialLoadReport
from livedex.pipeline.api.sync_waiter import SyncWaiter
from livedex.pipeline.ask.ask_engine import Answer
from livedex.pipeline.ask.request import AskRequest
from livedex.pipeline.embedding.embedder import EmbedLimits, TextKind, Vector
from livedex.pipeline.errors import NotFoundError, OutageError
from livedex.pipeline.events.consumer_lag import ConsumerLag
from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.authentication import (
    Authenticator,
    Caller,
    RequestLimiter,
    SingleTenantAuthenticator,
    UnlimitedRequests,
    require_scope,
)
from livedex.pipeline.ingest.ingester import ChangeSink, UnavailableIngester
from livedex.pipeline.model import Reader, TenantId
from livedex.pipeline.runtime.health import ProcessHealth
from livedex.pipeline.runtime.liveness import LivenessChecks
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.search.searcher import Searcher
from livedex.pipeline.store.collection_store import CollectionStore
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.installation_status import InstallationStatus
from livedex.pipeline.store.registered_subscriber_store import RegisteredSubscriber

T = TypeVar("T")


class TextEmbedder(Protocol):
    """Embeds texts; `livedex.pipeline.embedding.service.EmbeddingService` implements it."""

    @property
    def model_id(self) -> str:
        """Return the id of the model."""
        ...

    @property
    def limits(self) -> EmbedLimits:
        """Return the limits of the model."""
        ...

    async def embed_text(
        self, text: str, kind: TextKind, *, tenant_id: TenantId | None = None
    ) -> Vector:
        """Return the vector of a text.

        Args:
            text: not blank.
            kind: of the text.
            tenant_id: to whom the cost is assigned; None: no tenant.

        Raises:
            OutageError: the model is unavailable, or does not answer in time.
            RetryableError: a retry can succeed.
        """
        ...


class QuestionAnswerer(Protocol):
    """Answers questions; `livedex.pipeline.ask.ask_engine.AskEngine` implements it."""

    async def ask(self, reader: Reader, request: AskRequest) -> Answer:
        """Return the answer; see `livedex.pipeline.ask.ask_engine.AskEngine.ask`."""
        ...

    def stream(self, reader: Reader, request: AskRequest) -> AsyncIterator[dict[str, Any] | Answer]:
        """Yield the sources, each sentence, then the answer."""
        ...


class Administration(Protocol):
    """Administers the data of one tenant; ids of other tenants count as not found.

    Callers without a credential, and callers of the only tenant, also see the state of the whole
    installation. Every method may raise OutageError; those with an id may raise NotFoundError.
    """

    async def status(self, caller: Caller) -> dict[str, Any]:
        """Return documents by state, backlogs, health, dead letters and sources."""
        ...

    async def sources(self, tenant_id: TenantId) -> list[dict[str, Any]]:
        """Return every source."""
        ...

    async def dead_letters(
        self, caller: Caller, *, stage: str | None, limit: int, cursor: str | None
    ) -> dict[str, Any]:
        """Return a page of dead letters, oldest first, without their bytes.

        Raises:
            RejectedError: the cursor is invalid.
        """
        ...

    async def dead_letter(self, caller: Caller, letter_id: str) -> dict[str, Any]:
        """Return a dead letter with its bytes."""
        ...

    async def replay(self, caller: Caller, letter_id: str) -> dict[str, Any]:
        """Process a dead letter again; return whether it was sent or is stale."""
        ...

    async def drop(self, caller: Caller, letter_id: str) -> None:
        """Remove a dead letter permanently."""
        ...

    async def keys(self, tenant_id: TenantId) -> list[dict[str, Any]]:
        """Return the API keys without their secrets."""
        ...

    async def create_key(
        self, tenant_id: TenantId, name: str, scopes: Collection[str], days: float | None
    ) -> dict[str, Any]:
        """Create an API key and return it with its secret.

        Args:
            tenant_id: to which the key gives access.
            name: label for people.
            scopes: of the key.
            days: until it expires, > 0; None: never.
        """
        ...

    async def revoke_key(self, tenant_id: TenantId, key_id: str) -> None:
        """Revoke an API key."""
        ...

    async def subscribers(self, tenant_id: TenantId) -> list[dict[str, Any]]:
        """Return the subscribers with their backlog."""
        ...

    async def create_subscriber(self, subscriber: RegisteredSubscriber) -> dict[str, Any]:
        """Store a subscriber and return it with its secret, which is made if it has none.

        Raises:
            ConflictError: there is one of this name.
            RejectedError: the tenant has too many.
        """
        ...

    async def delete_subscriber(self, tenant_id: TenantId, name: str) -> None:
        """Delete a subscriber with its pending notifications.

        Raises:
            ConflictError: livedex.toml names it.
        """
        ...

    async def resume_subscriber(self, tenant_id: TenantId, name: str) -> dict[str, Any]:
        """Resume deliveries to a subscriber and return it."""
        ...

    async def costs(
        self,
        tenant_id: TenantId,
        *,
        days: int,
        by: Sequence[Literal["day", "source", "model"]],
        source: str | None,
        model: str | None,
        limit: int,
        cursor: str | None,
    ) -> dict[str, Any]:
        """Return what embedding cost, a page of it; raise RejectedError for an unknown cursor."""
        ...

    async def settings(self, caller: Caller) -> list[dict[str, Any]]:
        """Return the settings of this process, secrets masked."""
        ...


@dataclass(frozen=True, slots=True)
class ApiServices:
    """Services that the routes of the API use.

    Attributes:
        engine: runs searches.
        documents: reads documents.
        operations: reads the status of the installation.
        backlog: reads consumer lag.
        metrics: of this process.
        collections: creates and deletes collections.
        intake: accepts changes.
        url: of the database, for the connection that listens for ended changes; None: poll instead.
        liveness: checks of background tasks.
        tenancy: authenticates callers.
        limits: limits requests per credential.
        embedder: embeds texts of callers; None: not available in this process.
        first_load: progress of the initial load.
        health: unavailable components of this process.
        reads: this process serves searches, so readiness depends on reads; False: readiness
            depends on accepting changes.
        hosts: allowed host names of requests.
        cors_origins: origins of web pages that may call the API.
        shares: divides the process's time between tenants.
        ask: answers questions; None: not available in this process.
        administration: None: not available in this process.
    """

    engine: Searcher
    documents: DocumentQueries
    operations: InstallationStatus
    backlog: ConsumerLag
    metrics: Metrics
    collections: CollectionStore
    intake: ChangeSink = field(default_factory=UnavailableIngester)
    url: str | None = None
    liveness: LivenessChecks = field(default_factory=LivenessChecks)
    tenancy: Authenticator = field(default_factory=SingleTenantAuthenticator)
    limits: RequestLimiter = field(default_factory=UnlimitedRequests)
    embedder: TextEmbedder | None = None
    first_load: InitialLoadReport = field(default_factory=InitialLoadReport)
    health: ProcessHealth = field(default_factory=ProcessHealth)
    reads: bool = True
    hosts: AllowedHosts = field(default_factory=AllowedHosts)
    cors_origins: tuple[str, ...] = ()
    shares: TenantShares = field(default_factory=TenantShares)
    ask: QuestionAnswerer | None = None
    administration: Administration | None = None


async def _services(request: Request) -> ApiServices:
    return cast(ApiServices, request.app.state.services)


async def _waiter(request: Request) -> SyncWaiter:
    return cast(SyncWaiter, request.app.state.waiter)


SearchCaller = Annotated[Caller, Depends(require_scope("search"))]
StatusCaller = Annotated[
    Caller, Depends(require_scope("search", "documents:write", "events:write"))
]
DocumentWriter = Annotated[Caller, Depends(require_scope("documents:write"))]
EventWriter = Annotated[Caller, Depends(require_scope("events:write"))]
Admin = Annotated[Caller, Depends(require_scope("admin"))]


PrincipalsQuery = Annotated[
    Principals | None,
    Query(
        description="principal to read as; needs a credential with the scope `act_as`; may be "
        "given more than once; printable characters, and not `*`"
    ),
]


async def _reading(caller: SearchCaller, principals: PrincipalsQuery = None) -> Reader:
    return caller.reader(principals)


async def _administration(request: Request) -> Administration:
    return require_component(
        (await _services(request)).administration,
        "api",
        "this process does not serve administration calls",
    )


class PageRequest(NamedTuple):
    """A requested page of a list.

    Attributes:
        limit: maximum number of entries, 1 to 1000.
        cursor: `next_cursor` of the previous page; None: the first page.
    """

    limit: int
    cursor: str | None


async def _page_request(
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[
        str | None,
        Query(description="`next_cursor` of the previous page", json_schema_extra={"minLength": 1}),
    ] = None,
) -> PageRequest:
    return PageRequest(limit, cursor)


def require_found(value: T | None, message: str) -> T:
    """Return the result of a look-up.

    Args:
        value: the result; None: not found.
        message: of the error.

    Raises:
        NotFoundError: the value is None.
    """
    if value is None:
        raise NotFoundError(message)
    return value


def require_component(component: T | None, kind: str, message: str) -> T:
    """Return a component of this process.

    Args:
        component: None: not available in this process.
        kind: of the component, for the error.
        message: of the error.

    Raises:
        OutageError: the component is None.
    """
    if component is None:
        raise OutageError(kind, message)
    return component


Services = Annotated[ApiServices, Depends(_services)]
AdministrationService = Annotated[Administration, Depends(_administration)]
StatusWaiter = Annotated[SyncWaiter, Depends(_waiter)]
RequestReader = Annotated[Reader, Depends(_reading)]
"""The reader that the credential and the query parameter `principals` determine."""
PageParameters = Annotated[PageRequest, Depends(_page_request)]
"""The query parameters `limit` and `cursor`."""
