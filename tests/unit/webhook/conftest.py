"""The receiver over fakes: versions that count up, and an intake that does what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

from livedex.app.webhook_routes import routers
from livedex.connectors.webhook import RequestIngester, load_hooks
from livedex.pipeline.api.app import ApiServices, create_app
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.settings.webhook_source import WebhookSource
from livedex.pipeline.store.documents.version_allocator import VersionRequest
from tests.support.http.app_client import asgi_client, assert_problem

MAX_DOCUMENT_BYTES = 100_000


@dataclass
class FakeVersions:
    """Gives 1, 2, 3 … to changes without a version of their own, and the same again to a delivery
    that comes again.
    """

    wanted: list[VersionRequest] = field(default_factory=list)
    known: dict[bytes, int] = field(default_factory=dict)
    tenants: list[str] = field(default_factory=list)

    async def accepted(self, tenant_id: str, versions: Mapping[str, int]) -> None:
        """The broker holds them."""

    async def give(self, tenant_id: str, wanted: Sequence[VersionRequest]) -> list[int]:
        self.tenants.append(tenant_id)
        self.wanted += wanted
        return [
            want.minimum
            if want.room == 1
            else self.known.setdefault(
                want.delivery_key or bytes(8) + str(len(self.wanted)).encode(), len(self.known) + 1
            )
            for want in wanted
        ]


async def _held() -> None:
    """The broker holds it."""


@dataclass
class FakeIntake:
    """An intake; `broker` is awaited before it holds what it is given."""

    changes: list[Change] = field(default_factory=list)
    broker: Callable[[], Awaitable[None]] = _held

    async def accept(self, changes: Sequence[Change]) -> None:
        await self.broker()
        self.changes += changes

    @property
    def contents(self) -> dict[str, bytes | None]:
        return {change.data.document_id: change.content for change in self.changes}


@pytest.fixture
def intake() -> FakeIntake:
    return FakeIntake()


@pytest.fixture
def versions() -> FakeVersions:
    return FakeVersions()


@pytest.fixture
def sources() -> Sequence[WebhookSource]:
    """The systems that are configured; their secrets are their names."""
    return ()


@pytest.fixture
def secrets(sources: Sequence[WebhookSource]) -> Mapping[str, str]:
    """The environment."""
    return {name: source.name for source in sources for name in source.secret_env}


@pytest.fixture
async def app(
    intake: FakeIntake,
    versions: FakeVersions,
    sources: Sequence[WebhookSource],
    secrets: Mapping[str, str],
) -> AsyncIterator[FastAPI]:
    nobody = cast(Any, None)
    services = ApiServices(
        engine=nobody,
        documents=nobody,
        operations=nobody,
        backlog=nobody,
        metrics=Metrics(),
        collections=nobody,
    )
    hooks = load_hooks(sources, secrets)
    made = create_app(
        services,
        routers(
            RequestIngester(cast(Any, versions), intake),
            hooks,
            max_document_bytes=MAX_DOCUMENT_BYTES,
        ),
    )
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app."""
    async with asgi_client(app) as client:
        yield client


@pytest.fixture
def problem_of() -> Callable[[httpx.Response, int], dict[str, Any]]:
    """Checks that an answer is a problem of this status, and gives it."""
    return assert_problem
