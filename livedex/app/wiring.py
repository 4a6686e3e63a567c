"""The composition: the only place that wires everything.

Lifetimes are one exit stack, closed in reverse, also when half-opened.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from livedex.app.health_reporter import open_health_reporter
from livedex.app.lazy_fetcher import LazyFetcher
from livedex.app.logging_setup import JsonFormatter, SingleLineFormatter
from livedex.pipeline.api.initial_load_report import InitialLoadReport
from livedex.pipeline.ask.ask_engine import AskEngine
from livedex.pipeline.chat.chat_model_factory import build_chat_model
from livedex.pipeline.costs.bill import ModelPrice
from livedex.pipeline.costs.price_list import NO_CHARGE, load_price_list
from livedex.pipeline.embedding.embedder import Embedder, TextKind
from livedex.pipeline.embedding.embedder_factory import build_embedder
from livedex.pipeline.embedding.query_embedder import QUERY_DEADLINE_S
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.events.consumer_lag import ConsumerLag
from livedex.pipeline.model import TenantId
from livedex.pipeline.rerank.reranker_factory import build_reranker
from livedex.pipeline.rerank.reranking_engine import RerankingEngine
from livedex.pipeline.runtime.health import ProcessHealth
from livedex.pipeline.runtime.liveness import LivenessChecks
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.settings.blob_location import parse_blob_url
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.stages.document_chunker import ChunkerConfig
from livedex.pipeline.stages.remote_content import ContentFetcher
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.cost_ledger import CostLedger
from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.dead_letter_store import DeadLetterStore
from livedex.pipeline.store.documents.active_generation import ActiveGeneration
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.embedded.server import embedded_postgres, is_initialised, url_for_role
from livedex.pipeline.store.embedding_claims import EmbeddingClaims, open_embedding_claims
from livedex.pipeline.store.installation_status import InstallationStatus, QueueBacklog
from livedex.pipeline.store.postgres.connection import check_database_url
from livedex.pipeline.store.postgres.connection_budget import (
    ConnectionNeeds,
    allocate_connections,
    command_budget,
    read_server_capacity,
)
from livedex.pipeline.store.protocol import BlobStore
from livedex.pipeline.store.query_counter import QueryCounter
from livedex.pipeline.store.schema.database_roles import DatabaseRoles
from livedex.pipeline.store.schema.migrator import check_server, migrate, open_connection

log = logging.getLogger(__name__)

UP_STATE_FILE = "up.json"


@dataclass(frozen=True, slots=True)
class AppContext:
    """What the roles and the commands work with.

    Attributes:
        data: the data directory.
        owner_url: of the database, for who migrates and builds indexes.
        url: of the database, for everybody else.
        claims: None where no other process can embed, or nobody is paid for it.
        tell: notes that a component is unavailable and why, or, with None, that it works.
        ask: answers questions.
        costs: the ledger of embedding costs.
        model: the embedding model in use, and its price.
        publishing: connections for publishing to the queue of the database, and for acknowledging.
        fetcher: gets contents by their URL; None: nothing does (`LIVEDEX_FETCH_ENABLED`), and who
            sends one is told so.
    """

    settings: Settings
    data: Path
    owner_url: str
    url: str
    database: Database
    store: PgVectorStore
    blobs: BlobStore
    embeddings: EmbeddingService
    claims: EmbeddingClaims | None
    generations: ActiveGeneration
    engine: RerankingEngine
    operations: InstallationStatus
    backlog: ConsumerLag
    letters: DeadLetterStore
    metrics: Metrics
    liveness: LivenessChecks
    tell: ProcessHealth
    fetcher: ContentFetcher | None = None
    publishing: int = 2
    ask: AskEngine = field(kw_only=True)
    costs: CostLedger = field(kw_only=True)
    model: ModelPrice = field(kw_only=True)
    first_load: InitialLoadReport = field(default_factory=InitialLoadReport)

    @property
    def cutting(self) -> ChunkerConfig:
        """How documents are cut."""
        return ChunkerConfig(
            self.settings.chunk_size,
            self.settings.chunk_overlap,
            self.settings.max_document_bytes,
            self.settings.text_search_config,
        )


@asynccontextmanager
async def open_app_context(
    settings: Settings,
    data: Path,
    *,
    connections: int = 6,
    must_exist: bool = False,
    alone: bool = False,
    needs: ConnectionNeeds | None = None,
    query_deadline_s: float | None = None,
) -> AsyncIterator[AppContext]:
    """Open the database, migrated, and what stands on it.

    Args:
        settings: of this process.
        data: the data directory.
        connections: to the database at most, those of the broker apart; for who says nothing of its
            needs.
        must_exist: refuse where Livedex was never started, for commands that only look.
        alone: this process holds the data directory.
        needs: of a process that stays: it has its connections from its start on, and no more of
            them than fit.
        query_deadline_s: the longest that the model may take for a query; None: as for the API.

    Raises:
        ConfigError: the settings or the surroundings do not allow it.
    """
    async with AsyncExitStack() as stack:
        owner_url, url = await _database_urls(stack, settings, data, must_exist)
        roles = DatabaseRoles(settings.role_prefix)
        await _migrate(owner_url, roles)
        budget = command_budget(connections, settings.max_connections)
        if needs is not None:
            async with open_connection(url, "LIVEDEX_DATABASE_URL") as connection:
                budget = allocate_connections(
                    needs, await read_server_capacity(connection), settings.max_connections
                )
        database = await stack.enter_async_context(
            open_database(
                url,
                min_size=1 if needs is None else budget.pool,
                max_size=budget.pool,
                always_durable=bool(settings.kafka_servers),
                roles=roles,
                read_timeout_s=settings.read_timeout_s,
                tenant_share=settings.tenant_share,
            )
        )
        metrics, operations = Metrics(), InstallationStatus(database)
        if not await operations.has_text_search_config(settings.text_search_config):
            raise ConfigError(
                f"LIVEDEX_TEXT_SEARCH_CONFIG is {settings.text_search_config}: PostgreSQL "
                "has no such configuration (\\dF lists them)"
            )
        embedder = build_embedder(
            settings.embedder,
            url=settings.embedder_url,
            api_key=settings.embedder_api_key,
            dimensions=settings.dimensions,
        )
        model = _model_price(settings, embedder)
        store = PgVectorStore(
            database,
            text_search_config=settings.text_search_config,
            searched_metadata=settings.searched_metadata_keys,
            model=model,
        )
        costs = CostLedger(database)
        queries = QueryCounter(costs, model)
        stack.push_async_callback(queries.close)
        observer = EmbeddingMetrics(metrics, model)

        def count_query(tenant_id: TenantId, tokens: int) -> None:
            queries.count(tenant_id, tokens)
            observer.counted("query", tokens)

        teller = await stack.enter_async_context(open_health_reporter(operations))
        embeddings = EmbeddingService(
            embedder,
            dimensions=settings.dimensions,
            observer=observer,
            on_health=lambda ok, reason: teller("embedder", None if ok else reason),
            query_deadline_s=QUERY_DEADLINE_S if query_deadline_s is None else query_deadline_s,
            count_query=count_query,
            count_documents=lambda tokens: observer.counted("document", tokens),
        )
        stack.push_async_callback(embeddings.close)
        generations = ActiveGeneration(
            database, store, embedder.model_id, settings.dimensions, embeddings.check
        )
        await generations.load()
        engine = SearchEngine(
            database,
            embeddings,
            generations,
            text_search_config=settings.text_search_config,
            metrics=metrics,
        )
        chat = build_chat_model(settings.chat, url=settings.chat_url, api_key=settings.chat_api_key)
        searches = RerankingEngine(
            engine,
            build_reranker(
                settings.reranker, url=settings.reranker_url, api_key=settings.reranker_api_key
            ),
        )
        stack.push_async_callback(searches.close)
        ask = AskEngine(searches, database, chat, text_search_config=settings.text_search_config)
        stack.push_async_callback(ask.close)
        nobody_else = alone and not settings.kafka_servers and settings.database_url is None
        claims = (
            None
            if nobody_else or embeddings.in_process
            else await stack.enter_async_context(open_embedding_claims(database))
        )
        backlog = await stack.enter_async_context(_backlog(settings, database))
        contents = LazyFetcher(settings)
        stack.callback(contents.close)
        yield AppContext(
            settings,
            data,
            owner_url,
            url,
            database,
            store,
            _blobs(settings, database),
            embeddings,
            claims,
            generations,
            searches,
            operations,
            backlog,
            DeadLetterStore(database),
            metrics,
            LivenessChecks(),
            teller,
            contents if settings.fetch.enabled else None,
            budget.publishing,
            ask=ask,
            costs=costs,
            model=model,
        )


def _model_price(settings: Settings, embedder: Embedder) -> ModelPrice:
    """Return the name of the model and its price.

    Raises:
        ConfigError: the file of LIVEDEX_PRICES is missing or invalid.
    """
    price = load_price_list(settings.prices).price(settings.embedder, url=settings.embedder_url)
    if price is None and getattr(embedder, "in_process", False) is True:
        price = NO_CHARGE
    return ModelPrice(embedder.model_id, price)


async def _database_urls(
    stack: AsyncExitStack, settings: Settings, data: Path, must_exist: bool
) -> tuple[str, str]:
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        owner = (
            settings.owner_database_url.get_secret_value() if settings.owner_database_url else url
        )
        check_database_url(url, "LIVEDEX_DATABASE_URL")
        check_database_url(owner, "LIVEDEX_OWNER_DATABASE_URL")
        return owner, url
    if must_exist and not is_initialised(data):
        raise ConfigError(
            f"nothing was ever started in {data}: run `livedex up FOLDER` here, or name its "
            "--data DIR"
        )
    owner = await stack.enter_async_context(embedded_postgres(data))
    return owner, url_for_role(owner, DatabaseRoles(settings.role_prefix).application)


def _blobs(settings: Settings, database: Database) -> BlobStore:
    if settings.blob_url is None:
        return PostgresBlobStore(database)
    from livedex.pipeline.store.blobs.object_blob_store import ObjectBlobStore
    from livedex.pipeline.store.blobs.object_storage import ObjectStorage

    return ObjectBlobStore(ObjectStorage(parse_blob_url(settings.blob_url)), database)


async def _migrate(owner_url: str, roles: DatabaseRoles) -> None:
    async with open_connection(owner_url, "LIVEDEX_DATABASE_URL") as connection:
        if await connection.fetchval("select current_user <> $1", roles.application):
            await migrate(connection, roles)
        else:
            await check_server(connection)


class EmbeddingMetrics:
    """Turns what the embedding service observes into metrics."""

    def __init__(self, metrics: Metrics, model: ModelPrice) -> None:
        self._metrics, self._model = metrics, model

    def embedded(self, texts: int, characters: int) -> None:
        """Texts of documents were answered with vectors."""
        self._metrics.embedded_texts_total.inc(texts)
        self._metrics.embedded_characters_total.inc(characters)

    def counted(self, kind: TextKind, tokens: int) -> None:
        """Tokens were embedded."""
        self._metrics.embedding_tokens_total.labels(kind).inc(tokens)
        cost = self._model.cost(tokens)
        if cost:
            self._metrics.embedding_cost_dollars_total.labels(kind).inc(float(cost))

    def requested(self, outcome: str) -> None:
        """A request ended: ok, retry, rejected or outage."""
        self._metrics.embed_requests_total.labels(outcome).inc()


@asynccontextmanager
async def _backlog(settings: Settings, database: Database) -> AsyncIterator[ConsumerLag]:
    if not settings.kafka_servers:
        yield QueueBacklog(database)
        return
    from livedex.consumers.kafka import KafkaConsumerLag

    backlog = KafkaConsumerLag(settings.kafka, settings.kafka_servers)
    try:
        yield backlog
    finally:
        await backlog.close()


def write_up_state(
    data: Path, folders: Sequence[FolderSource], url: str, pid: int, index: str = ""
) -> None:
    """Write down what `up` was started with, for the other commands.

    Args:
        data: the data directory.
        folders: that are watched.
        url: of the API.
        pid: of the process.
        index: see `index_mark`; without it no command asks `up` over HTTP.
    """
    body = {
        "folders": [folder.model_dump(mode="json") for folder in folders],
        "url": url,
        "pid": pid,
        "index": index,
    }
    written = data / (UP_STATE_FILE + ".new")
    written.write_text(json.dumps(body, indent=1), "utf-8")
    written.replace(data / UP_STATE_FILE)


def index_fingerprint(settings: Settings) -> str:
    """Return what tells the index of these settings from another one that the same data directory
    was used with, without its credentials.
    """
    url = settings.database_url.get_secret_value() if settings.database_url else ""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def read_up_state(data: Path) -> dict[str, Any]:
    """What `up` was last started with; empty when it never was.

    Raises:
        ConfigError: the file is damaged.
    """
    try:
        return dict(json.loads((data / UP_STATE_FILE).read_text("utf-8")))
    except FileNotFoundError:
        return {}
    except ValueError as exc:
        raise ConfigError(
            f"{data / UP_STATE_FILE} is damaged ({exc}): start `livedex up` again"
        ) from exc


def watched_folders(settings: Settings, data: Path) -> list[FolderSource]:
    """The folders that are watched: those of livedex.toml and those that `up` was last given."""
    folders = [FolderSource(**folder) for folder in read_up_state(data).get("folders", [])]
    names = {folder.name for folder in folders}
    return [*folders, *(source for source in settings.folders if source.name not in names)]


def configure_logging(level: str, log_format: str = "text") -> None:
    """Write log lines to stderr; of libraries only warnings.

    Args:
        level: name of the minimum severity.
        log_format: `text` or `json`.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if log_format == "json"
        else SingleLineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.CRITICAL if level == "critical" else logging.WARNING)
    if level != "debug":
        # it says every tenth of a second that Kafka is away; we say it once
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    for name in ("livedex",):
        logging.getLogger(name).setLevel(level.upper())
