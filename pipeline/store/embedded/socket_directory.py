"""The folder of the embedded server's socket: its data directory, or where that path will not do, a
new folder that nobody can foretell.

Who looks for the server reads the folder from the server's own file, whatever `TMPDIR` its shell
has.
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
"""What a socket's path may hold that stands in a URL and in PostgreSQL's list of such folders."""


def create_socket_directory(
    home: Path, account: pwd.struct_passwd | None, *, reachable: bool, left: Path | None = None
) -> Path:
    """Return the folder for a server that is about to start.

    Args:
        home: its data directory.
        left: of the server before it, if that was killed: processes that outlived it look for the
            next one there.
        account: the user that it runs as; None: this process's.
        reachable: that user can reach the data directory by its path.

    Raises:
        ConfigError: there is no folder for it.
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
        f"there is no folder for PostgreSQL's socket: {home} is too long or has odd "
        "characters, and so has the temporary folder;"
        " choose a shorter --data DIR, or set TMPDIR to a short one"
    )


def remove_socket_directory(folder: Path, home: Path, account: pwd.struct_passwd | None) -> None:
    """Remove an embedded server's socket directory, if it is ours and holds nothing else."""
    if folder == home or not _is_ours(folder, account):
        return
    with suppress(OSError):
        for name in (_SOCKET, f"{_SOCKET}.lock"):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def _is_ours(folder: Path, account: pwd.struct_passwd | None) -> bool:
    """Whether it is a folder that was made here, which only the server's user can enter."""
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
    """Folders for temporary files in which nobody else can take away what is ours."""
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
    """Let the server's user have a folder that was just made, and nothing that was put in its
    place.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(opened, account.pw_uid, account.pw_gid)
    finally:
        os.close(opened)
