"""The API over fakes: an engine that does what the test says, documents that are just known,
operations that may be away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from livedex.pipeline.api.app import ApiServices, create_app
from livedex.pipeline.api.initial_load_report import InitialLoadReport
from livedex.pipeline.embedding.embedder import EmbedLimits
from livedex.pipeline.events.consumer_lag import StageLag
from livedex.pipeline.model import Reader
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.answer import SearchResult
from livedex.pipeline.store.documents.document_queries import (
    ChunksView,
    ChunkView,
    CollectionView,
    DocumentView,
)
from livedex.pipeline.store.installation_status import ComponentHealth
from tests.support.http.app_client import asgi_client, assert_problem

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass
class Engine:
    """Notes the searches it is asked, and answers with `answer` or raises `error`."""

    asked: list[tuple[Reader, Any]] = field(default_factory=list)
    answer: Any = field(default_factory=lambda: {"hits": [], "degraded": [], "took_ms": 0.1})
    error: Exception | None = None

    async def search(self, reader: Reader, request: Any) -> Any:
        self.asked.append((reader, request))
        if self.error is not None:
            raise self.error
        given = self.answer
        return given if isinstance(given, SearchResult) else SearchResult(**given)


@dataclass
class TextEmbedder:
    """Notes what it embeds, and answers with the same vector or raises `error`."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None
    model_id: str = "test:model"
    limits: EmbedLimits = field(default_factory=lambda: EmbedLimits(max_text_characters=20_000))

    async def embed_text(self, text: str, kind: str, **_: object) -> np.ndarray:
        self.asked.append((text, kind))
        if self.error is not None:
            raise self.error
        return np.array([0.6, 0.8], dtype=np.float32)


@dataclass
class KnownDocuments:
    """Documents of which nothing but the id is known; `asked` are the ids looked up, `progress`
    the states told one after another.
    """

    known: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    progress: list[str] = field(default_factory=lambda: ["pending"])

    async def get(self, reader: Reader, document_id: str) -> DocumentView | None:
        self.asked.append(document_id)
        if document_id not in self.known:
            return None
        return DocumentView(
            document_id,
            "synced",
            1,
            None,
            1,
            "default",
            "docs",
            None,
            None,
            None,
            {},
            None,
            NOON,
            NOON,
        )

    async def chunks(self, reader: Reader, document_id: str) -> ChunksView | None:
        return (
            ChunksView(document_id, 1, [ChunkView(0, "text", 0, 4, [])])
            if document_id in self.known
            else None
        )

    async def collection(self, reader: Reader, name: str) -> CollectionView | None:
        return CollectionView(name, 0, None) if name == "default" else None

    async def sync_state(self, reader: Reader, document_id: str, version: int) -> str:
        return self.progress.pop(0) if len(self.progress) > 1 else self.progress[0]


class NoCollections:
    """Where nothing is made or taken away."""


@dataclass
class Operations:
    """What an operator asks, with `down` the components that are, or `error` raised to every
    question.
    """

    down: dict[str, str] = field(default_factory=dict)
    error: Exception | None = None
    events: int = 0

    async def health(self) -> dict[str, ComponentHealth]:
        self._fail()
        return {
            "database": ComponentHealth("ok", None, NOON),
            **{name: ComponentHealth("down", reason, NOON) for name, reason in self.down.items()},
        }

    async def waiting(self) -> dict[str, StageLag]:
        self._fail()
        return {"embed": StageLag(self.events, 1.5)}

    async def pending_notifications(self) -> StageLag | None:
        self._fail()
        return StageLag(self.events, 2.5) if self.events else None

    async def count_dead_letters(self) -> int:
        self._fail()
        return 4

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def embedder() -> TextEmbedder:
    return TextEmbedder()


@pytest.fixture
def first_load() -> InitialLoadReport:
    return InitialLoadReport()


@pytest.fixture
def documents() -> KnownDocuments:
    return KnownDocuments()


@pytest.fixture
def operations() -> Operations:
    return Operations()


@pytest.fixture
async def app(
    engine: Engine,
    documents: KnownDocuments,
    operations: Operations,
    embedder: TextEmbedder,
    first_load: InitialLoadReport,
) -> AsyncIterator[FastAPI]:
    made = create_app(
        ApiServices(
            engine=engine,
            documents=documents,
            operations=operations,
            backlog=operations,
            metrics=Metrics(),
            collections=NoCollections(),
            embedder=embedder,
            first_load=first_load,
        )
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
