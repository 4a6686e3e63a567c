"""The embedded PostgreSQL server in the data directory: the first process that needs it starts it,
and the last one stops it.

Every process that uses the server holds a shared lock on `postgres.lock`. A process that ends and
gets the exclusive lock is the last one, and stops the server. A server that survived a killed
process is reused. No environment variable affects how processes connect to the server.
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
"""Names the data directory for a user that cannot reach it by its path: it is PostgreSQL's working
directory.
"""
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

# servers that this process started and must reap
_children: dict[Path, subprocess.Popen[bytes]] = {}


@asynccontextmanager
async def embedded_postgres(data: Path) -> AsyncIterator[str]:
    """Start PostgreSQL or use the running one, and release it at the end of the block.

    Args:
        data: the data directory; created if it is missing.

    Yields:
        The URL of its database for the owner's role; see `url_for_role` for others.

    Raises:
        ConfigError: the server does not start; the message names its log.
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
    """Return the URL of the same database for another role. Only for the embedded server, which
    needs no password.

    Args:
        url: of the embedded server.
        role: to connect as.
    """
    return EmbeddedUrl(url.replace(f"//{OWNER_ROLE}@", f"//{role}@", 1))


def is_initialised(data: Path) -> bool:
    """Return whether Livedex was ever started on this data directory."""
    return (data / "postgres" / "PG_VERSION").exists()


def _url(sockets: Path, database: str) -> EmbeddedUrl:
    return EmbeddedUrl(
        f"postgresql://{OWNER_ROLE}@/{database}?host={sockets}&port={_PORT}&sslmode=disable"
    )


@dataclass(frozen=True, slots=True)
class _Server:
    """A server that runs on a data directory.

    Attributes:
        pid: of its main process.
        state: from its PID file; `ready` after its start.
        sockets: the folder of its socket.
    """

    pid: int
    state: str
    sockets: Path


def _ensure_running(home: Path) -> Path:
    """Start the server if needed, and return the folder of its socket when it is ready.

    Raises:
        ConfigError: the server does not start.
    """
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
    """Create a folder that only the server's user can access; an existing one stays unchanged."""
    path.mkdir(mode=0o700)
    if account:
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _initialise(
    home: Path, programs: Path, account: pwd.struct_passwd | None, reachable: bool
) -> None:
    making = home.with_name("postgres.new")
    if making.is_symlink() or making.exists():
        subprocess.run(["rm", "-rf", str(making)], check=True)  # left by an interrupted start
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
    """Start the server, and retry once if it ends at once: the system may still be releasing the
    resources of a killed server.

    Raises:
        ConfigError: the server does not start.
    """
    settings = {**_SETTINGS, "unix_socket_directories": str(sockets)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = home / "server.log"
    for is_last in (False, True):
        for stale in (home / "postmaster.pid", sockets / f".s.PGSQL.{_PORT}.lock"):
            # `_ready_server` found no server; a killed one may still be a zombie
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
    """Open the server's log for appending, without following symbolic links: the server's user
    owns the folder.

    Raises:
        ConfigError: the log cannot be written.
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
    """Return the contents of the server's PID file, whether it runs or not; None: no PID file."""
    try:
        lines = (
            (home / "postmaster.pid").read_text("utf-8", "surrogateescape").rstrip("\n").split("\n")
        )
        return _Server(
            int(lines[0]), lines[-1].strip(), Path(lines[-4])
        )  # counted from the end: the second entry is a path that may contain line breaks
    except (OSError, ValueError, IndexError):
        return None


def _running_server(home: Path) -> _Server | None:
    """Return the server that runs on this directory; None: no server runs."""
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
    """Return the server that runs on this directory, after waiting until it accepts connections;
    None: no server runs.
    """
    end = time.monotonic() + _START_TIMEOUT_S
    server = _running_server(home)
    while server is not None and server.state != "ready" and time.monotonic() < end:
        time.sleep(0.02)
        server = _running_server(home)
    return server if server is not None and server.state == "ready" else None


def _stop_if_last_user(home: Path, lock: int) -> None:
    """Release the shared lock, and stop the server if no other process holds one."""
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
