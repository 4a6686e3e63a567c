"""`livedex run ROLE …`: the roles of a deployment, one or more a process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, closing, nullcontext, suppress
from pathlib import Path

import click

from livedex.cli.running import freeze_started
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings, load_settings


@click.command(epilog="Example:  livedex run chunk embed sync")
@click.argument("roles", nargs=-1, required=True, metavar="ROLE...")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=".livedex",
    show_default=True,
    help="Data directory of the index, if LIVEDEX_DATABASE_URL is not set.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Listen address of the roles api and webhook, and of --health-port.",
)
@click.option(
    "--port",
    default=8700,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port of the API, for the roles api and webhook.",
)
@click.option(
    "--health-port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Also serve /healthz, /readyz and /metrics on this port of --host, with any roles; "
    "no API key is needed.",
)
@click.option(
    "--trust-network",
    is_flag=True,
    help="Allow a --host that other machines can reach even if no API keys exist: everyone "
    "on that network can then read everything.",
)
def run(
    roles: tuple[str, ...],
    data: Path,
    host: str,
    port: int,
    health_port: int | None,
    trust_network: bool,
) -> None:
    """Run ROLES: api, webhook, watch, chunk, embed, sync, notify, maintain, or all."""
    from livedex.app.notify_role import check_subscribers
    from livedex.app.roles import check_roles
    from livedex.app.webhook_role import check_fetch_credentials, check_webhook_sources
    from livedex.app.wiring import configure_logging
    from livedex.cli.running import run_event_loop as run_loop
    from livedex.cli.up import folder_sources

    settings = load_settings(Path.cwd())
    configure_logging(settings.log_level, settings.log_format)
    wanted = check_roles(roles)
    sources = folder_sources((), settings, data) if "watch" in wanted else []
    if "webhook" in wanted:
        check_webhook_sources(settings)
    if "chunk" in wanted:
        check_fetch_credentials(settings)
    if "notify" in wanted:
        check_subscribers(settings)
    run_loop(_run(settings, wanted, sources, data, host, port, health_port, trust_network))


async def _run(
    settings: Settings,
    roles: tuple[str, ...],
    sources: Sequence[FolderSource],
    data: Path,
    host: str,
    port: int,
    health_port: int | None,
    trust_network: bool,
) -> None:
    from livedex.app.authentication import open_authentication
    from livedex.app.connection_needs import connection_needs
    from livedex.app.initial_load import InitialLoad
    from livedex.app.roles import HTTP_ROLES, bind_socket, run_roles
    from livedex.app.shutdown import BACKGROUND_TIMEOUT_S, end_tasks, stop_signal
    from livedex.app.wiring import open_app_context
    from livedex.cli.up import (
        StartupCancelledError,
        cancel_startup_on_stop,
        check_embedder,
        lock_data_directory,
    )
    from livedex.pipeline.runtime.supervision import run_supervised

    with ExitStack() as sockets:
        bound = (
            sockets.enter_context(closing(bind_socket(host, port)))
            if HTTP_ROLES & set(roles)
            else None
        )
        health = (
            sockets.enter_context(closing(bind_socket(host, health_port, "--health-port")))
            if health_port is not None
            else None
        )
        stop = stop_signal()
        held = nullcontext() if settings.database_url else lock_data_directory(data, alone=False)
        with suppress(StartupCancelledError), held:
            async with open_app_context(
                settings,
                data,
                needs=connection_needs(roles, settings, f"livedex run {' '.join(roles)}"),
            ) as s:
                if {"embed", "api"} & set(roles):
                    await check_embedder(s)
                async with AsyncExitStack() as stack:
                    entrance = None
                    if bound is not None:
                        entrance = await stack.enter_async_context(
                            open_authentication(s, host, trust_network=trust_network)
                        )
                        print(entrance.told, flush=True)
                    if sources:
                        s.first_load.expect()
                    with cancel_startup_on_stop(stop):
                        connectors = await stack.enter_async_context(
                            run_roles(s, roles, sources, bound, entrance, health)
                        )
                    if bound is not None and connectors:
                        load = InitialLoad(list(zip(sources, connectors, strict=True)), s.database)
                        s.first_load.watch(load)
                        stack.push_async_callback(
                            end_tasks,
                            [
                                asyncio.create_task(
                                    run_supervised(load.run, "first load"), name="first load"
                                )
                            ],
                            BACKGROUND_TIMEOUT_S,
                        )
                    freeze_started()
                    print(
                        f"running {' '.join(roles)}"
                        + (f", ready http://{host}:{port}" if bound else ""),
                        flush=True,
                    )
                    await stop.wait()
                    print("stopping after the work in progress", file=sys.stderr, flush=True)
