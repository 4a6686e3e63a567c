"""What the API stands on, handed in by the composition, and how a handler asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Protocol, cast

from fastapi import Depends, Query, Request

from livedex.pipeline.acl import Principals
from livedex.pipeline.api.initial_load_report import LoadReport
from livedex.pipeline.api.sync_waiter import Waiter
from livedex.pipeline.embedding.embedder import EmbedLimits, Kind, Vector
from livedex.pipeline.events.consumer_lag import Backlog
from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.authentication import Caller, Limits, NoLimits, OneTenant, Tenancy, needs
from livedex.pipeline.ingest.ingester import Accepting, NoIntake
from livedex.pipeline.model import Reader
from livedex.pipeline.runtime.health import ProcessHealth
from livedex.pipeline.runtime.liveness import Liveness
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.search.answer import SearchAnswer
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.collection_store import Collections
from livedex.pipeline.store.documents.document_queries import Documents
from livedex.pipeline.store.installation_status import Operations


class Searcher(Protocol):
    """Answers searches; `livedex.pipeline.search.engine.SearchEngine` does."""

    async def search(self, reader: Reader, request: SearchRequest) -> SearchAnswer:
        """The answer, for who asks.

        Raises:
            OutageError: what the asked mode needs is away.
            RejectedError: the request makes no sense for this index.
        """
        ...


class TextEmbedder(Protocol):
    """Turns texts into vectors; `livedex.pipeline.embedding.service.EmbeddingService` does."""

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
