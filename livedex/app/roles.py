"""The roles of a deployment, run together or apart: each is a task that ends when `stop` is set."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp

from livedex.app.administration import TenantAdministration
from livedex.app.authentication import AuthenticationSetup
from livedex.app.broker import open_broker
from livedex.app.maintenance import maintain
from livedex.app.notify_role import open_notification_workers
from livedex.app.shutdown import ROLE_TIMEOUT_S, end_tasks
from livedex.app.source_registry import register_sources, report_sources_periodically
from livedex.app.watch_role import make_connector, serve_scan_requests
from livedex.app.webhook_role import webhook_routers
from livedex.app.wiring import AppContext
from livedex.connectors.filesystem import FolderConnector
from livedex.pipeline.api.app import READ_ROUTERS, ApiServices, AppExtension, create_app
from livedex.pipeline.api.health_app import RejectingAuthenticator, create_health_app
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.flow import StageName
from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.authentication import UnlimitedRequests
from livedex.pipeline.http.host_names import parse_origins
from livedex.pipeline.http.uvicorn_server import server_config
from livedex.pipeline.ingest.ingester import ChangeSink, DeferredIngester, UnavailableIngester
from livedex.pipeline.runtime.name_suggestions import did_you_mean
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.collection_store import CollectionStore
from livedex.pipeline.store.documents.document_queries import DocumentQueries

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONG_S = 60.0
_CONNECTED_S = 5.0

ROLES = ("api", "webhook", "watch", "chunk", "embed", "sync", "notify", "maintain")
HTTP_ROLES = frozenset({"api", "webhook"})
"""The roles that answer over HTTP, together on one address."""
_STAGES: tuple[StageName, ...] = ("chunk", "embed", "sync")


def check_roles(roles: Sequence[str]) -> tuple[str, ...]:
    """The roles meant, `all` spelt out.

    Raises:
        ConfigError: one that does not exist.
    """
    if "all" in roles:
        return ROLES
    for role in roles:
        if role not in ROLES:
            raise ConfigError(
                f"{role!r} is no role{did_you_mean(role, (*ROLES, 'all')) or ':'} The roles "
                f"are {', '.join(ROLES)} and all"
            )
    return tuple(dict.fromkeys(roles))


def bind_socket(host: str, port: int, option: str = "--port") -> socket.socket:
    """A bound socket, so that a port in use is known before anything is started.

    Args:
        host: for the message.
        port: the port; 0 takes a free one.
        option: that names the port, for the error.

    Raises:
        ConfigError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(512)
    except OSError as exc:
        bound.close()
        raise ConfigError(
            f"{host}:{port} cannot be had ({exc.strerror}): choose another {option} or end "
            "what uses it"
        ) from exc
    bound.setblocking(False)
    return bound


class _Server(uvicorn.Server):
    """A server that leaves signals to the program."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def api_services(
    s: AppContext,
    roles: Sequence[str],
    entrance: AuthenticationSetup | None = None,
    intake: ChangeSink | None = None,
    administration: TenantAdministration | None = None,
) -> ApiServices:
    """Return what the API of a process stands on.

    Args:
        s: the context of the process.
        roles: of this process.
        entrance: how requests are let in; None: no credential is taken.
        intake: accepts changes; None: nothing does.
        administration: None: administration calls are refused.
    """
    return ApiServices(
        engine=s.engine,
        documents=DocumentQueries(s.database),
        operations=s.operations,
        backlog=s.backlog,
        metrics=s.metrics,
        collections=CollectionStore(s.database),
        intake=intake or UnavailableIngester(),
        url=s.url,
        liveness=s.liveness,
        tenancy=entrance.tenancy if entrance else RejectingAuthenticator(),
        limits=entrance.limits if entrance else UnlimitedRequests(),
        embedder=s.embeddings,
        first_load=s.first_load,
        health=s.tell,
        reads="api" in roles,
        hosts=entrance.hosts if entrance else AllowedHosts(),
        cors_origins=parse_origins(s.settings.cors_origins),
        shares=s.database.shares,
        ask=s.ask,
        administration=administration,
    )


@asynccontextmanager
async def serve_app(app: ASGIApp, bound: socket.socket) -> AsyncIterator[None]:
    """Serve an app on a socket for as long as the block lasts; requests under way are answered at
    its end.

    Raises:
        ConfigError: the API did not start.
    """
    server = _Server(server_config(app))
    task = asyncio.create_task(server.serve(sockets=[bound]), name="answer requests")
    try:
        while not server.started:
            await asyncio.sleep(0.01)
            if task.done():
                task.result()
                raise ConfigError("the API did not start")
        yield
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def serve_api(
    s: AppContext,
    roles: Sequence[str],
    bound: socket.socket,
    entrance: AuthenticationSetup,
    intake: ChangeSink,
    administration: TenantAdministration,
) -> AsyncIterator[None]:
    """The API of these roles on a socket for as long as the block lasts; requests under way are
    answered at its end.
    """
    services = api_services(s, roles, entrance, intake, administration)
    routers = [
        *(READ_ROUTERS if "api" in roles else ()),
        *(webhook_routers(s, intake) if "webhook" in roles else ()),
    ]
    extensions: list[AppExtension] = []
    if "api" in roles:
        # here: only the API needs the protocol's library
        from livedex.pipeline.mcp.http_endpoint import add_mcp_endpoint

        extensions.append(add_mcp_endpoint)
    async with serve_app(create_app(services, routers, extensions), bound):
        yield


@asynccontextmanager
async def _connect_broker_in_background(
    s: AppContext, intake: DeferredIngester, administration: TenantAdministration
) -> AsyncIterator[None]:
    """Connect the API's intake as soon as the broker is there; what only reads does not wait for
    that, beyond a moment.
    """
    connected = asyncio.Event()

    async def hold(stop: asyncio.Event) -> None:
        async with open_broker(s, patient=True) as running:
            intake.connect(running.intake)
            administration.connect(running.broker)
            connected.set()
            await stop.wait()

    task = asyncio.create_task(
        kept_alive(hold, asyncio.Event(), "changes over HTTP"), name="changes over HTTP"
    )
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(connected.wait(), _CONNECTED_S)
        yield
    finally:
        await end_tasks([task], ROLE_TIMEOUT_S)


@asynccontextmanager
async def run_roles(
    s: AppContext,
    roles: Sequence[str],
    folders: Sequence[FolderSource],
    bound: socket.socket | None = None,
    entrance: AuthenticationSetup | None = None,
    health_bound: socket.socket | None = None,
) -> AsyncIterator[list[FolderConnector]]:
    """These roles for as long as the block lasts; at its end the connectors stop first, then the
    stages drain.

    Args:
        s: the context of the process.
        roles: of this process.
        folders: that are watched.
        bound, entrance: where the API is served and how requests are let in; None without it.
        bound: the socket of the API.
        entrance: how requests are let in.
        health_bound: where health and metrics alone are served, from the start on; None: nowhere.

    Yields:
        The connectors of the folders.
    """
    stop = asyncio.Event()
    connectors: list[FolderConnector] = []
    async with AsyncExitStack() as stack:
        if health_bound is not None:
            await stack.enter_async_context(
                serve_app(create_health_app(api_services(s, roles)), health_bound)
            )
        # a process that said otherwise may be gone
        await s.operations.set_health("database", ok=True)
        await s.blobs.check()
        intake, administration = DeferredIngester(), TenantAdministration(s)
        if bound is not None and entrance is not None:
            await stack.enter_async_context(
                serve_api(s, roles, bound, entrance, intake, administration)
            )
        stages = [stage for stage in _STAGES if stage in roles]
        running = (
            await stack.enter_async_context(open_broker(s, stages, patient=True))
            if stages or "watch" in roles
            else None
        )
        tasks: list[asyncio.Task[None]] = []
        if running is not None:
            intake.connect(running.intake)
            administration.connect(running.broker)
        elif bound is not None:
            await stack.enter_async_context(
                _connect_broker_in_background(s, intake, administration)
            )
        if running is not None and "watch" in roles:
            await register_sources(s, folders)
            connectors += [make_connector(s, folder, running.intake) for folder in folders]
            tasks.append(
                asyncio.create_task(
                    kept_alive(
                        lambda until: report_sources_periodically(s, folders, until),
                        stop,
                        "report sources",
                    ),
                    name="report sources",
                )
            )
            tasks += [
                asyncio.create_task(
                    kept_alive(connector.run, stop, f"watch {folder.name}"),
                    name=f"watch {folder.name}",
                )
                for connector, folder in zip(connectors, folders, strict=True)
            ]
            tasks.append(
                asyncio.create_task(
                    kept_alive(
                        lambda until: serve_scan_requests(s.operations, connectors, until),
                        stop,
                        "reconcile requests",
                    ),
                    name="reconcile requests",
                )
            )
        if "notify" in roles:
            couriers = await stack.enter_async_context(open_notification_workers(s))
            tasks += [
                asyncio.create_task(
                    kept_alive(courier.run, stop, f"tell {courier.name}"),
                    name=f"tell {courier.name}",
                )
                for courier in couriers
            ]
        if "maintain" in roles:
            tasks.append(
                asyncio.create_task(
                    kept_alive(lambda until: maintain(s, until), stop, "maintain"), name="maintain"
                )
            )
        try:
            yield connectors
        finally:
            stop.set()
            await end_tasks(tasks, ROLE_TIMEOUT_S, asked_s=ROLE_TIMEOUT_S)


async def kept_alive(
    work: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event, name: str
) -> None:
    """Run a role until `stop` is set; when it ends by an error that nobody foresaw, say so and
    begin it again, with growing pauses.

    A process that is alive but has stopped looking at its folders would be worse than one that is
    gone.
    """
    pause_s = _FIRST_PAUSE_S
    while not stop.is_set():
        begin = time.monotonic()
        try:
            await work(stop)
        except Exception:
            log.exception("%s ended by an error and begins again in %.0f s", name, pause_s)
            if time.monotonic() - begin > _LONG_S:
                pause_s = _FIRST_PAUSE_S
            try:
                await asyncio.wait_for(stop.wait(), pause_s)
            except TimeoutError:
                pause_s = min(2 * pause_s, _LONG_S)
