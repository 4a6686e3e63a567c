"""PostgreSQL out of a wheel, in the data directory: started when nobody has, stopped by the last
one who uses it.

Every process that uses it holds a shared lock on `postgres.lock`; whoever ends and gets the lock
exclusively is the last and stops it. A server that a killed process left behind is taken over as it
is. Nothing of the shell decides how the server is reached.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.store.embedded.binaries import (
    binary_directory,
    can_traverse,
    environment_without_libpq,
    run_binary,
    subprocess_user,
    system_user,
)
from livedex.pipeline.store.embedded.shutdown import KILL_TIMEOUT_S, stop_server
from livedex.pipeline.store.embedded.socket_directory import (
    create_socket_directory,
    remove_socket_directory,
)
from livedex.pipeline.store.postgres.conninfo import EmbeddedUrl

DATABASE = "livedex"
OWNER_ROLE = "postgres"
_PORT = "5432"
_WORKING_DIRECTORY = "/proc/self/cwd"
"""The data directory for a user that cannot reach it by its path: PostgreSQL is started in it."""
_START_TIMEOUT_S = 60.0
_RESTART_DELAY_S = 0.5
_SETTINGS = {
    "listen_addresses": "",
    "port": _PORT,
    "unix_socket_permissions": "0700",
    "max_connections": "150",
    "shared_buffers": "128MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
    "timezone": "UTC",
}

# servers that this process started, to reap them
_children: dict[Path, subprocess.Popen[bytes]] = {}


@asynccontextmanager
async def embedded_postgres(data: Path) -> AsyncIterator[str]:
    """Run PostgreSQL for as long as the block lasts, or use the one that runs.

    Args:
        data: the data directory; made when it is not there.

    Yields:
        The URL of its database, for the role that owns it; `url_as` gives another role's.

    Raises:
        ConfigError: it does not start; the message names its log.
    """
    data.mkdir(parents=True, exist_ok=True)
    home = data.resolve() / "postgres"
    with (data / "postgres.lock").open("a") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_SH)
        try:
            yield _url(await asyncio.to_thread(_ensure_running, home), DATABASE)
        finally:
            await asyncio.shield(asyncio.to_thread(_stop_if_last_user, home, lock.fileno()))


def url_for_role(url: str, role: str) -> str:
    """The same database for another role; only for the embedded server, which trusts its socket."""
    return EmbeddedUrl(url.replace(f"//{OWNER_ROLE}@", f"//{role}@", 1))


def is_initialised(data: Path) -> bool:
    """Whether Livedex was ever started on this data directory."""
    return (data / "postgres" / "PG_VERSION").exists()


def _url(sockets: Path, database: str) -> EmbeddedUrl:
    return EmbeddedUrl(
        f"postgresql://{OWNER_ROLE}@/{database}?host={sockets}&port={_PORT}&sslmode=disable"
    )


@dataclass(frozen=True, slots=True)
class _Server:
    """A server that runs on a data directory.

    Attributes:
        state: as it says itself; `ready` at the end of its start.
        sockets: the folder of its socket.
    """

    pid: int
    state: str
    sockets: Path


def _ensure_running(home: Path) -> Path:
    """The folder of the socket of a server that is ready."""
    with (home.parent / "postgres.start.lock").open("a") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if server := _ready_server(home):
            return server.sockets
        account = system_user()
        reachable = account is None or can_traverse(home, account)
        if not reachable and not sys.platform.startswith("linux"):
            raise ConfigError(
                "PostgreSQL does not run as root, and its user "
                f"{account.pw_name if account else ''} cannot reach {home}: choose another "
                "--data DIR"
            )
        programs = binary_directory(account)
        if not (home / "PG_VERSION").exists():
            _initialise(home, programs, account, reachable)
        sockets = _start(home, programs, account, reachable)
        _ensure_database(sockets)
        return sockets


def _create_directory(path: Path, account: pwd.struct_passwd | None) -> None:
    """Make a folder for the server's user alone; what stands there already is not touched."""
    path.mkdir(mode=0o700)
    if account:
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _initialise(
    home: Path, programs: Path, account: pwd.struct_passwd | None, reachable: bool
) -> None:
    making = home.with_name("postgres.new")
    if making.is_symlink() or making.exists():
        subprocess.run(["rm", "-rf", str(making)], check=True)  # a start that was killed half-way
    _create_directory(making, account)
    run_binary(
        programs / "initdb",
        "-D",
        making if reachable else _WORKING_DIRECTORY,
        "-U",
        OWNER_ROLE,
        "--auth=trust",
        "--encoding=UTF8",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--no-instructions",
        account=account,
        folder=making,
    )
    making.rename(home)


def _start(home: Path, programs: Path, account: pwd.struct_passwd | None, reachable: bool) -> Path:
    """Start the server and return the folder of its socket."""
    if dead := _children.pop(home, None):
        dead.poll()
    left = _read_pid_file(home)
    sockets = create_socket_directory(
        home, account, reachable=reachable, left=None if left is None else left.sockets
    )
    try:
        _launch(
            home,
            [str(programs / "postgres"), "-D", str(home) if reachable else _WORKING_DIRECTORY],
            sockets,
            account,
        )
    except BaseException:
        if left is None or left.sockets != sockets:
            remove_socket_directory(sockets, home, account)
        raise
    return sockets


def _launch(
    home: Path, command: list[str], sockets: Path, account: pwd.struct_passwd | None
) -> None:
    """Run the server; once more when it ends at once, as it may when what a killed one left is
    still being cleared away.
    """
    settings = {**_SETTINGS, "unix_socket_directories": str(sockets)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = home / "server.log"
    for is_last in (False, True):
        for stale in (home / "postmaster.pid", sockets / f".s.PGSQL.{_PORT}.lock"):
            # `_ready_server` looked; what was killed may be a zombie still
            stale.unlink(missing_ok=True)
        with _open_log(log) as out:
            process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=home,
                start_new_session=True,
                env=environment_without_libpq(),
                **subprocess_user(account),
            )
        if _wait_until_ready(home, process):
            _children[home] = process
            return
        if is_last:
            raise ConfigError(f"PostgreSQL did not start: see {log} ({_last_line(log)})")
        process.kill()
        process.wait()
        time.sleep(_RESTART_DELAY_S)


def _open_log(log: Path) -> BinaryIO:
    """The server's log to write to; its folder is the server's user's, who may not lead us
    elsewhere.
    """
    try:
        return os.fdopen(
            os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab"
        )
    except OSError as exc:
        raise ConfigError(f"{log} cannot be written ({exc.strerror}): remove it") from exc


def _wait_until_ready(home: Path, process: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + _START_TIMEOUT_S
    while _ready_server(home) is None:
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    return lines[-1].strip() if lines else "the log is empty"


def _ensure_database(sockets: Path) -> None:
    async def create() -> None:
        from livedex.pipeline.store.postgres.connection import connect

        connection = await connect(_url(sockets, "postgres"))
        try:
            if not await connection.fetchval(
                "select exists (select from pg_database where datname = $1)", DATABASE
            ):
                await connection.execute(f'create database "{DATABASE}"')
        finally:
            await connection.close()

    asyncio.run(create())


def _read_pid_file(home: Path) -> _Server | None:
    """What a server wrote down at its start, whether it runs or not."""
    try:
        lines = (
            (home / "postmaster.pid").read_text("utf-8", "surrogateescape").rstrip("\n").split("\n")
        )
        return _Server(
            int(lines[0]), lines[-1].strip(), Path(lines[-4])
        )  # counted from its end: the second is a path, which may have line breaks
    except (OSError, ValueError, IndexError):
        return None


def _running_server(home: Path) -> _Server | None:
    """The server that runs on this directory, if one does."""
    server = _read_pid_file(home)
    try:
        if server is None:
            return None
        process = psutil.Process(server.pid)
        return (
            None
            if process.status() == psutil.STATUS_ZOMBIE or process.cwd() != str(home)
            else server
        )
    except psutil.Error:
        return None


def _ready_server(home: Path) -> _Server | None:
    """The server that runs on this directory and takes connections; one that is starting is waited
    for.
    """
    end = time.monotonic() + _START_TIMEOUT_S
    server = _running_server(home)
    while server is not None and server.state != "ready" and time.monotonic() < end:
        time.sleep(0.02)
        server = _running_server(home)
    return server if server is not None and server.state == "ready" else None


def _stop_if_last_user(home: Path, lock: int) -> None:
    """Give the shared lock back; stop the server when nobody else holds one."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(lock, fcntl.LOCK_UN)
        return
    try:
        _stop(home)
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _stop(home: Path) -> None:
    found = _running_server(home)
    child = _children.pop(home, None)
    try:
        if found:
            server = psutil.Process(found.pid)
            account = pwd.getpwuid(server.uids().effective) if os.geteuid() == 0 else None
            stop_server(server, child)
            remove_socket_directory(found.sockets, home, account)
    except psutil.NoSuchProcess:
        pass
    finally:
        if child:
            with suppress(subprocess.TimeoutExpired):
                child.wait(KILL_TIMEOUT_S)
