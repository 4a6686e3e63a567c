"""What the API stands on, handed in by the composition, and how a handler asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, cast

from fastapi import Depends, Query, Request

from livedex.pipeline.acl import Principals
from livedex.pipeline.api.initial_load_report import InitialLoadReport
from livedex.pipeline.api.sync_waiter import SyncWaiter
from livedex.pipeline.ask.ask_engine import Answer
from livedex.pipeline.ask.request import AskRequest
from livedex.pipeline.embedding.embedder import EmbedLimits, TextKind, Vector
from livedex.pipeline.errors import OutageError
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


class TextEmbedder(Protocol):
    """Turns texts into vectors; `livedex.pipeline.embedding.service.EmbeddingService` does."""

    @property
    def model_id(self) -> str: ...

    @property
    def limits(self) -> EmbedLimits: ...

    async def embed_text(
        self, text: str, kind: TextKind, *, tenant_id: TenantId | None = None
    ) -> Vector:
        """Return a text's vector; raise OutageError or RetryableError if there is none in time."""
        ...


class QuestionAnswerer(Protocol):
    """Answers questions; `livedex.pipeline.ask.ask_engine.AskEngine` does."""

    async def ask(self, reader: Reader, request: AskRequest) -> Answer:
        """Return the answer; see `livedex.pipeline.ask.ask_engine.AskEngine.ask`."""
        ...

    def stream(self, reader: Reader, request: AskRequest) -> AsyncIterator[dict[str, Any] | Answer]:
        """Yield the sources, each sentence, then the answer."""
        ...


class Administration(Protocol):
    """Reports on and changes what belongs to one tenant; ids of others count as missing.

    Facts about the whole installation are for callers that administer it: those that need no
    credential, and those of its only tenant.

    Every call may raise OutageError; those that name something raise NotFoundError.
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
            RejectedError: the cursor is none that a page gave.
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
            days: until it expires; None: never.
        """
        ...

    async def revoke_key(self, tenant_id: TenantId, key_id: str) -> None:
        """Revoke an API key."""
        ...

    async def subscribers(self, tenant_id: TenantId) -> list[dict[str, Any]]:
        """Return the subscribers with their backlog."""
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
    """What the API stands on.

    Attributes:
        collections: made and taken away.
        intake: accepts changes.
        embedder: of texts that callers send; None: none runs here.
        first_load: what answers tell of it.
        health: what this process finds unavailable.
        reads: searches and documents are served here, so that readiness follows reads; otherwise it
            follows whether changes are taken.
        hosts: that requests may name, where the settings say which.
        cors_origins: of web pages that may read answers.
        shares: of tenants in the time of this process.
        ask: answers questions; None: none runs here.
        administration: None: none runs here.
        url: of the database, for the connection that listens for ended changes; None: ask again and
            again instead.
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
    found = (await _services(request)).administration
    if found is None:
        raise OutageError("api", "this process does not serve administration calls")
    return found


Services = Annotated[ApiServices, Depends(_services)]
AdministrationService = Annotated[Administration, Depends(_administration)]
StatusWaiter = Annotated[SyncWaiter, Depends(_waiter)]
RequestReader = Annotated[Reader, Depends(_reading)]
"""For whom something is read, as the credential and the query of the request say."""
