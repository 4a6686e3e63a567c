"""`livedex run ROLE …`: the roles of a deployment, one or more a process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, closing, nullcontext, suppress
from pathlib import Path

import click

from livedex.cli.running import freeze_started
from livedex.pipeline.settings.settings import FolderSource, Settings, load_settings


@click.command(epilog="Example:  livedex run chunk embed sync")
@click.argument("roles", nargs=-1, required=True, metavar="ROLE...")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=".livedex",
    show_default=True,
    help="Where the index lives, without LIVEDEX_DATABASE_URL.",
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address of the API, for the roles api and webhook, and of --health-port."
)
@click.option(
    "--port", default=8700, show_default=True, type=click.IntRange(1, 65535), help="Port of the API, for the roles api and webhook."
)
@click.option(
    "--health-port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Serve /healthz, /readyz and /metrics of this process here, on the address of --host, whatever its roles are; no key is asked for.",
)
@click.option(
    "--trust-network",
    is_flag=True,
    help="Let --host be an address that others can reach though there are no API keys: whoever reaches it may read everything.",
)
def run(roles: tuple[str, ...], data: Path, host: str, port: int, health_port: int | None, trust_network: bool) -> None:
    """Run ROLES: api, webhook, watch, chunk, embed, sync, notify, maintain, or all."""
    from livedex.app.notify_role import check_subscribers
    from livedex.app.roles import check_roles
    from livedex.app.webhook_role import check_contents, check_hooks
    from livedex.app.wiring import set_up_logging
    from livedex.cli.running import run as run_loop
    from livedex.cli.up import sources_of

    settings = load_settings(Path.cwd())
    set_up_logging(settings.log_level)
    wanted = check_roles(roles)
    sources = sources_of((), settings, data) if "watch" in wanted else []
    if "webhook" in wanted:
        check_hooks(settings)
    if "chunk" in wanted:
        check_contents(settings)
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
    from livedex.app.authentication import open_entrance
    from livedex.app.connection_needs import needs_of
    from livedex.app.initial_load import FirstLoad
    from livedex.app.roles import SERVED, listen, running_roles
    from livedex.app.shutdown import WATCHED_S, end_tasks, stop_signal
    from livedex.app.wiring import open_surroundings
    from livedex.cli.up import StoppedError, check_embedder, ending_a_start, holding
    from livedex.pipeline.runtime.supervision import supervised

    with ExitStack() as sockets:
        bound = sockets.enter_context(closing(listen(host, port))) if SERVED & set(roles) else None
        health = sockets.enter_context(closing(listen(host, health_port, "--health-port"))) if health_port is not None else None
        stop = stop_signal()
        held = nullcontext() if settings.database_url else holding(data, alone=False)
        with suppress(StoppedError), held:
            async with open_surroundings(settings, data, needs=needs_of(roles, settings, f"livedex run {' '.join(roles)}")) as s:
                if {"embed", "api"} & set(roles):
                    await check_embedder(s)
                async with AsyncExitStack() as stack:
                    entrance = None
                    if bound is not None:
                        entrance = await stack.enter_async_context(open_entrance(s, host, trust_network=trust_network))
                        print(entrance.told, flush=True)
                    if sources:
                        s.first_load.expect()
                    with ending_a_start(stop):
                        connectors = await stack.enter_async_context(running_roles(s, roles, sources, bound, entrance, health))
                    if bound is not None and connectors:
                        load = FirstLoad(list(zip(sources, connectors, strict=True)), s.database)
                        s.first_load.watch(load)
                        stack.push_async_callback(
                            end_tasks, [asyncio.create_task(supervised(load.run, "first load"), name="first load")], WATCHED_S
                        )
                    freeze_started()
                    print(f"running {' '.join(roles)}" + (f", ready http://{host}:{port}" if bound else ""), flush=True)
                    await stop.wait()
                    print("stopping: what was begun is finished", file=sys.stderr, flush=True)
