"""An installation of all stages over Kafka whose processes come and go, with an embedder that
counts what each of them sends.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from livedex.app.broker import BrokerConnection, open_broker
from livedex.app.catch_up import wait_for_catch_up
from livedex.app.wiring import AppContext, open_app_context
from livedex.pipeline.events.event import Changed
from livedex.pipeline.flow import StageName
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.model import DocumentId, Reader, TenantId
from livedex.pipeline.settings.kafka import KafkaSettings
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.external_client import TIMEOUT_S, ExternalKafkaClient, wait_until
from tests.support.pipelines.indexed_folder import paragraph

TENANT = TenantId("acme")
STAGES: tuple[StageName, ...] = ("chunk", "embed", "sync")


def text(*seeds: int) -> str:
    """Markdown with a chunk for each number, the same for the same number."""
    return "\n\n".join(f"## Section {seed}\n\n{paragraph(seed)}" for seed in seeds)


def change(document_id: str, version: int, content: str | bytes = "", **more: Any) -> Change:
    """A change as a connector makes it."""
    data = Changed(tenant_id=TENANT, document_id=document_id, version=version, name="a.md", **more)
    return Change(
        data, None if data.deleted else content.encode() if isinstance(content, str) else content
    )


class InstallationProcess:
    """One process of the installation.

    Attributes:
        s: what it works with.
        running: its broker and intake.
    """

    def __init__(self, s: AppContext, running: BrokerConnection) -> None:
        self.s, self.running = s, running

    async def accept(self, *changes: Change) -> None:
        """Accept changes, in order."""
        await self.running.intake.accept(changes)

    async def ended(self) -> None:
        """Wait until all that was accepted has ended."""
        found = await wait_for_catch_up(
            self.s.operations, self.s.backlog, deadline=time.monotonic() + TIMEOUT_S, scan=False
        )
        assert found.all, found.left

    async def wait_stage_processed(self, stage: StageName) -> None:
        """Wait until a stage has ended all that waits for it."""

        async def nothing_waits() -> bool:
            return (await self.s.backlog.waiting())[stage].waiting == 0

        await wait_until(nothing_waits)

    async def state(self, document_id: str) -> tuple[str, int | None] | None:
        """State and visible version of a document; None when there is none."""
        found = await DocumentQueries(self.s.database).get(Reader(TENANT), DocumentId(document_id))
        return None if found is None else (found.state, found.version)

    async def chunks(self, document_id: str) -> list[str]:
        """Contents of the visible chunks of a document."""
        found = await DocumentQueries(self.s.database).chunks(
            Reader(TENANT), DocumentId(document_id)
        )
        return [] if found is None else [chunk.content for chunk in found.chunks]

    async def chunk_rows(self, document_id: str) -> list[tuple[int, int]]:
        """Position and passage of each of a document's rows, in order."""
        async with self.s.database.tenant(TENANT, "look at chunks") as connection:
            rows = await connection.fetch(
                "select position, passage_id from chunks join documents using (doc_id) where "
                "document_id = $1 order by position",
                document_id,
            )
        return [(row["position"], row["passage_id"]) for row in rows]

    async def under_way(self) -> int:
        """Documents that are under way."""
        return await self.s.operations.pending_since(datetime.now(UTC))

    async def health(self, component: str) -> tuple[str, str | None] | None:
        """State and reason of a component."""
        found = (await self.s.operations.health()).get(component)
        return None if found is None else (found.state, found.detail)

    async def since(self, component: str) -> datetime | None:
        """Since when a component is as it is."""
        found = (await self.s.operations.health()).get(component)
        return None if found is None else found.since


class KafkaInstallation:
    """An installation on topics and a database of its own.

    Attributes:
        embedder: every process sends its texts there.
        external_client: sees its Kafka from outside.
    """

    def __init__(
        self,
        owner_url: str,
        servers: str,
        kafka: KafkaSettings,
        folder: Path,
        embedder: EmbeddingServer,
    ) -> None:
        self.owner_url, self.servers, self.kafka, self._folder, self.embedder = (
            owner_url,
            servers,
            kafka,
            folder,
            embedder,
        )
        self.external_client = ExternalKafkaClient(servers, kafka.prefix)

    @property
    def environment(self) -> dict[str, str]:
        """Its settings, for a program."""
        given = self.kafka.model_dump(exclude_defaults=True)
        plain = {
            name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in given.items()
        }
        kafka = {f"LIVEDEX_KAFKA_{name.upper()}": value for name, value in plain.items()}
        return {
            "LIVEDEX_DATABASE_URL": self.owner_url,
            "LIVEDEX_BROKER_URL": f"kafka://{self.servers}",
            "LIVEDEX_EMBEDDER": "openai:counting",
            "LIVEDEX_EMBEDDER_URL": self.embedder.url,
            "LIVEDEX_EMBEDDER_API_KEY": "none",
            "LIVEDEX_DIMENSIONS": "32",
            **kafka,
        }

    @property
    def settings(self) -> Settings:
        """Its settings, as a program reads them."""
        given: dict[str, Any] = {
            "database_url": self.owner_url,
            "broker_url": f"kafka://{self.servers}",
            "embedder": "openai:counting",
            "embedder_url": self.embedder.url,
            "embedder_api_key": "none",
            "dimensions": 32,
            "kafka": self.kafka,
        }
        return Settings(**given)

    @asynccontextmanager
    async def process(
        self, stages: Sequence[StageName] = STAGES
    ) -> AsyncIterator[InstallationProcess]:
        """A process of it that runs these stages."""
        async with AsyncExitStack() as stack:
            s = await stack.enter_async_context(
                open_app_context(self.settings, self._folder, connections=8)
            )
            yield InstallationProcess(s, await stack.enter_async_context(open_broker(s, stages)))
