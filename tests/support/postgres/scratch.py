"""Folders for what is written to be thrown away: in memory where there is room, for a disk takes
several times as long to make and drop a database.

Where there is none, as in a container whose `/dev/shm` is the usual 64 MB, they are on the disk.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 << 30
_PREFIX = "livedex-tests-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new, empty folder that is gone after the block, with everything in it; what a killed run
    left in memory goes when the next one asks.
    """
    place = Path(tempfile.gettempdir())
    if _has_room():
        _remove_abandoned()
        place = _MEMORY
    unclaimed = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=place))
    holder = os.open(unclaimed, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)  # ours for as long as this process lives
        folder = unclaimed.rename(place / unclaimed.name.removeprefix("."))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(holder)


def _has_room() -> bool:
    try:
        return (
            os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
        )
    except OSError:
        return False


def _remove_abandoned() -> None:
    """Remove folders whose process has ended; a server that it left behind ends when it misses its
    own.
    """
    for folder in _MEMORY.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user, or just being removed
            holder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(holder)
