"""`livedex up`: everything in one process tree."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import click

from livedex.cli.output import one_line
from livedex.cli.running import freeze_started
from livedex.pipeline.errors import ConfigError, LivedexError, error_text
from livedex.pipeline.settings.folder_source import MAX_SOURCE_NAME_LENGTH, FolderSource
from livedex.pipeline.settings.settings import Settings, load_settings

_MOST_SHOWN = 10
_EMBEDDER_ANSWERS_S, _COUNTED_S = 5.0, 2.0
_LOOKS_TAKE_S = 1.0  # a command that looks whether something runs holds the lock for a moment


@click.command(epilog="Example:  livedex up ~/notes ./handbook --port 8700")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=".livedex",
    show_default=True,
    help="Data directory of the index.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the API.")
@click.option(
    "--port",
    default=8700,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port of the API.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Embed new folders whatever they cost, without asking (LIVEDEX_CONFIRM_ABOVE_USD).",
)
def up(folders: tuple[Path, ...], data: Path, host: str, port: int, yes: bool) -> None:
    """Watch FOLDERS and keep an index true to them, with a built-in database."""
    from livedex.app.notify_role import check_subscribers
    from livedex.app.webhook_role import check_fetch_credentials, check_webhook_sources
    from livedex.app.wiring import configure_logging
    from livedex.cli.first_load import confirm_first_load
    from livedex.cli.running import run_event_loop

    settings = load_settings(Path.cwd())
    configure_logging(settings.log_level, settings.log_format)
    sources = folder_sources(folders, settings, data)
    check_webhook_sources(settings)
    check_fetch_credentials(settings)
    check_subscribers(settings)
    confirm_first_load(settings, sources, data, is_confirmed=yes)
    run_event_loop(_up(settings, sources, data, host, port))


def folder_sources(folders: Sequence[Path], settings: Settings, data: Path) -> list[FolderSource]:
    """The folders to watch: those named here and those of livedex.toml.

    Args:
        folders: that are watched.
        settings: of this process.
        data: the data directory.

    Raises:
        ConfigError: a folder that is not there, that lies in the data directory, or two of one
        name.
    """
    named = [FolderSource(name=_name(folder), path=folder.absolute()) for folder in folders]
    sources = [*named, *settings.folders]
    for source in sources:
        if not source.path.is_dir() and not source.path.is_file():
            raise ConfigError(
                f"the folder {source.path} is not there: make it, or name another one"
            )
        if source.path.resolve().is_relative_to(data.resolve()):
            raise ConfigError(
                f"the folder {source.path} is where the index lives, or a part of it: name "
                "another one, or another --data DIR"
            )
    seen: dict[tuple[str, str], Path] = {}
    for source in sources:
        other = seen.setdefault((source.tenant, source.name), source.path)
        if other is not source.path:
            raise ConfigError(
                f"{other} and {source.path} are both called {source.name}: give one a "
                "[[source]] with another name in livedex.toml"
            )
    return sources


def _name(folder: Path) -> str:
    """As the folder is called, also where it is a link to another one.

    Raises:
        ConfigError: too long for a source.
    """
    name = (
        os.fsencode(os.path.basename(os.path.abspath(folder))).decode("utf-8", "replace") or "root"
    )
    if len(name) > MAX_SOURCE_NAME_LENGTH:
        raise ConfigError(
            f"{name[:20]}… is too long for the name of a source: give the folder a "
            "[[source]] with a shorter one in livedex.toml"
        )
    return name


@contextmanager
def lock_data_directory(data: Path, *, alone: bool) -> Iterator[None]:
    """Hold the data directory for this process, so that other commands know that something runs on
    it.

    Args:
        data: the data directory.
        alone: as `livedex up` does; else beside others that are not alone.

    Raises:
        ConfigError: another one runs on it that does not allow this.
    """
    data.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + _LOOKS_TAKE_S
    with (data / "up.lock").open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConfigError(
                        f"another livedex is already running on {data}: end it, or choose "
                        "another --data DIR"
                    ) from None
                time.sleep(0.02)
        yield


async def _up(
    settings: Settings, sources: Sequence[FolderSource], data: Path, host: str, port: int
) -> None:
    from livedex.app.authentication import missing_keys_error, open_authentication
    from livedex.app.connection_needs import connection_needs
    from livedex.app.initial_load import InitialLoad
    from livedex.app.roles import bind_socket, check_roles, run_roles
    from livedex.app.shutdown import BACKGROUND_TIMEOUT_S, end_tasks, stop_signal
    from livedex.app.wiring import index_fingerprint, open_app_context, write_up_state
    from livedex.cli.load_progress import show_progress
    from livedex.pipeline.http.host_names import is_loopback
    from livedex.pipeline.runtime.supervision import run_supervised
    from livedex.pipeline.store.embedded.server import is_initialised

    if (
        not is_loopback(host)
        and settings.database_url is None
        and settings.jwt.jwks_url is None
        and not is_initialised(data)
    ):
        raise missing_keys_error(host)  # nothing was ever started here, so there are none
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    bound = bind_socket(host, port)
    try:
        with lock_data_directory(data, alone=True):
            stop = stop_signal()
            needs = connection_needs(check_roles(["all"]), settings, "livedex up")
            async with (
                open_app_context(settings, data, alone=True, needs=needs) as s,
                open_authentication(s, host) as entrance,
            ):
                await s.operations.clear_health()
                await check_embedder(s)
                await s.operations.release_leases()
                write_up_state(data, sources, url, os.getpid(), index_fingerprint(settings))
                if sources:
                    s.first_load.expect()
                async with AsyncExitStack() as stack:
                    with cancel_startup_on_stop(stop):
                        connectors = await stack.enter_async_context(
                            run_roles(s, check_roles(["all"]), sources, bound, entrance)
                        )
                    load = InitialLoad(list(zip(sources, connectors, strict=True)), s.database)
                    watched = [
                        asyncio.create_task(
                            run_supervised(load.run, "first load"), name="first load"
                        )
                    ]
                    s.first_load.watch(load)
                    with suppress(TimeoutError):
                        # so that the first answer can say how much there is
                        await asyncio.wait_for(load.counted.wait(), _COUNTED_S)
                    print(watching_message(sources), flush=True)
                    print(entrance.told, flush=True)
                    freeze_started()
                    print(f"ready {url}", flush=True)
                    watched.append(asyncio.create_task(show_progress(load), name="progress"))
                    await stop.wait()
                    # so that a bar is gone before the next line
                    await end_tasks(watched, BACKGROUND_TIMEOUT_S)
                    print("stopping: what was begun is finished", file=sys.stderr, flush=True)
    except StartupCancelledError:
        return
    finally:
        bound.close()


def watching_message(sources: Sequence[FolderSource]) -> str:
    """Return what `up` will do, in one line for its user."""
    if not sources:
        return (
            "watching no folder: documents come in over HTTP (PUT /v1/documents/ID); to watch "
            "one, run `livedex up FOLDER` or add a [[source]] to livedex.toml"
        )
    shown = [
        f"{one_line(source.name)} ({one_line(str(source.path))})"
        for source in sources[:_MOST_SHOWN]
    ]
    more = [f"{len(sources) - _MOST_SHOWN} more"] if len(sources) > _MOST_SHOWN else []
    return f"watching {', '.join([*shown, *more])}"


@contextmanager
def cancel_startup_on_stop(stop: asyncio.Event) -> Iterator[None]:
    """Let a stop cancel the first connection to a broker, and close what was opened."""
    starting = asyncio.current_task()
    assert starting is not None

    async def cancel() -> None:
        await stop.wait()
        starting.cancel()

    watcher = asyncio.create_task(cancel())
    try:
        yield
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        starting.uncancel()
        raise StartupCancelledError from None
    finally:
        watcher.cancel()


class StartupCancelledError(Exception):
    """The program was told to stop before it had begun."""


async def check_embedder(s: object) -> None:
    """Ask the model for its dimensions; one that does not answer now is asked again later. An
    in-process model is loaded when this returns.

    That it answers is written down, since a process that said otherwise may be gone. What others
    say of other components stays.

    Raises:
        ConfigError: it has other dimensions than configured.
    """
    from livedex.app.wiring import AppContext

    assert isinstance(s, AppContext)
    try:
        # a model of this process is loaded first
        async with asyncio.timeout(None if s.embeddings.in_process else _EMBEDDER_ANSWERS_S):
            await s.embeddings.check()
            await s.generations.resolve()
        await s.operations.set_health("embedder", ok=True)
    except ConfigError:
        raise
    except (LivedexError, TimeoutError) as exc:
        reason = (
            f"no answer within {_EMBEDDER_ANSWERS_S:g} s"
            if isinstance(exc, TimeoutError)
            else error_text(exc)
        )
        print(
            f"the embedder does not answer yet ({one_line(reason)}): documents wait for it, "
            "keyword search works",
            file=sys.stderr,
            flush=True,
        )
