"""The folder of the embedded server's socket: its data directory or, if that path is unsuitable, a
new temporary folder with an unpredictable name.

Other processes read the folder from the server's PID file, so `TMPDIR` may differ between shells.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from livedex.pipeline.errors import ConfigError

_PREFIX = "livedex-"
_MAX_SOCKET_BYTES = 100
_SOCKET = ".s.PGSQL.5432"
_SAFE_PATH = re.compile(rb"[\w/.+-]+")
"""Characters of a socket path that need no escaping in a URL or in PostgreSQL's settings."""


def create_socket_directory(
    home: Path, account: pwd.struct_passwd | None, *, reachable: bool, left: Path | None = None
) -> Path:
    """Return the folder for a server that is about to start.

    Args:
        home: its data directory.
        account: user that runs it; None: the user of this process.
        reachable: whether that user can reach the data directory by its path.
        left: folder of the previous server, if that was killed: surviving processes look for the
            new server there.

    Raises:
        ConfigError: no folder is suitable.
    """
    if reachable and _fits(home):
        return home
    if left is not None and _is_ours(left, account):
        return left
    for place in _candidate_directories():
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
            if account is not None:
                _change_owner(folder, account)
            return folder
    raise ConfigError(
        f"no folder is suitable for PostgreSQL's socket: the paths of {home} and of the temporary "
        "folder are too long or contain special characters; choose a shorter --data DIR, or set "
        "TMPDIR to a short path"
    )


def remove_socket_directory(folder: Path, home: Path, account: pwd.struct_passwd | None) -> None:
    """Remove a socket folder that `create_socket_directory` created, if it is empty.

    Args:
        folder: of the socket.
        home: data directory of the server, which is never removed.
        account: user that runs the server; None: the user of this process.
    """
    if folder == home or not _is_ours(folder, account):
        return
    with suppress(OSError):
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def _is_ours(folder: Path, account: pwd.struct_passwd | None) -> bool:
    """Return whether `create_socket_directory` created a folder: only the server's user can enter
    it.
    """
    try:
        found = folder.lstat()
    except OSError:
        return False
    owner = os.geteuid() if account is None else account.pw_uid
    return (
        folder.name.startswith(_PREFIX)
        and stat.S_ISDIR(found.st_mode)
        and found.st_uid == owner
        and not found.st_mode & 0o077
    )


def _fits(folder: Path) -> bool:
    socket = os.fsencode(folder / _SOCKET)
    return len(socket) <= _MAX_SOCKET_BYTES and bool(_SAFE_PATH.fullmatch(socket))


def _candidate_directories() -> Iterator[Path]:
    """Yield folders for temporary files in which other users cannot delete ours."""
    for place in dict.fromkeys(
        [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp", "/var/tmp"]
    ):
        folder = Path(place)
        if not place.startswith("/") or not _fits(folder / f"{_PREFIX}00000000"):
            continue
        with suppress(OSError):
            found = folder.stat()
            shared = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
            passable = os.geteuid() != 0 or all(
                above.stat().st_mode & stat.S_IXOTH for above in (folder, *folder.parents)
            )
            if found.st_uid in (0, os.geteuid()) and not shared and passable:
                yield folder


def _change_owner(folder: Path, account: pwd.struct_passwd) -> None:
    """Change the owner of a new folder, without following a symbolic link put in its place."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(opened, account.pw_uid, account.pw_gid)
    finally:
        os.close(opened)
