"""What a folder needs to keep content safely, beyond what the library for object storage does with
one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from livedex.pipeline.errors import OutageError

_PARTIAL_WRITE_MAX_AGE_S = 3600.0


class LocalFolder:
    """A folder that is the same for as long as the process lives, and whose content is on disk.

    The library makes a folder anew where it is gone, reads a folder that is gone as one without
    content, and waits for no disk.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._identity: tuple[int, int] | None = None

    def check(self) -> None:
        """Returns when the folder is the one it was; the first time it is made where it is not
        there.

        Raises:
            OutageError: it is another one, such as the empty one below a file system that was taken
            away.
            OSError: it is gone, or cannot be made.
        """
        if self._identity is None:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._identity = _identity(self.root)
        elif _identity(self.root) != self._identity:
            raise OutageError(
                "blobs",
                f"{self.root} is another folder than it was: bring the old one back, or start anew",
            )

    def settle(self, key: str) -> None:
        """Bring an object, and that it is there, onto the disk.

        Raises:
            OSError: it is not on the disk.
        """
        path = self.root / key
        for settled in (path, *path.parents[: len(Path(key).parts)]):
            opened = os.open(settled, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)

    def remove_partial_writes(self) -> None:
        """Remove what processes that died left half written; listings do not show it.

        Raises:
            OSError: it cannot be removed.
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
