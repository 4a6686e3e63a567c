"""Safety checks and fsync for a local folder, which the object storage library lacks."""

from __future__ import annotations

import os
import time
from pathlib import Path

from livedex.pipeline.errors import OutageError

_PARTIAL_WRITE_MAX_AGE_S = 3600.0


class LocalFolder:
    """Checks that a folder is still the same one, and flushes its files to disk.

    The object storage library recreates a missing folder, reads it as empty, and never calls fsync.

    Args:
        root: path of the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._identity: tuple[int, int] | None = None

    def check(self) -> None:
        """Return if the folder is the same as at the first call, which creates it if it is missing.

        Raises:
            OutageError: it is another folder, such as the empty mount point of an unmounted file
                system.
            OSError: it was deleted, or cannot be created.
        """
        if self._identity is None:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._identity = _identity(self.root)
        elif _identity(self.root) != self._identity:
            raise OutageError(
                "blobs",
                f"{self.root} is not the same folder as at the start: restore it, or restart",
            )

    def settle(self, key: str) -> None:
        """Flush an object and its directory entries to disk.

        Args:
            key: path of the object below the folder.

        Raises:
            OSError: the flush failed.
        """
        path = self.root / key
        for settled in (path, *path.parents[: len(Path(key).parts)]):
            opened = os.open(settled, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)

    def remove_partial_writes(self) -> None:
        """Remove partially written files of crashed processes; listings do not show them.

        Raises:
            OSError: a file cannot be removed.
        """
        for path in self.root.glob("*/*/*#*"):
            try:
                if path.stat().st_mtime < time.time() - _PARTIAL_WRITE_MAX_AGE_S:
                    path.unlink()
            except FileNotFoundError:
                continue


def _identity(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino
