"""Mount points below a watched folder: while one that was seen is not mounted, nothing can be said
about the files below it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from livedex.connectors.filesystem.safe_file_access import FolderIdentity

_MOUNTINFO = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class MountPoints:
    """The mount points of one folder.

    Attributes:
        known: every mount point that was seen, relative, with device and inode of what was mounted
            there last.
    """

    def __init__(self, root: bytes) -> None:
        self._root = root
        self.known: dict[bytes, FolderIdentity] = {}

    def refresh(self) -> set[bytes]:
        """See what is mounted now; the mount points at which something else is mounted than before.

        Blocks.
        """
        changed = set[bytes]()
        for path, identity in self._mounted().items():
            if self.known.get(path, identity) != identity:
                changed.add(path)
            self.known[path] = identity
        return changed

    def lost(self) -> list[bytes]:
        """Return the mount points that were seen and are not mounted now. Blocks."""
        if not self.known:
            return []
        mounted = self._mounted()
        return [path for path in self.known if path not in mounted]

    def _mounted(self) -> dict[bytes, FolderIdentity]:
        found: dict[bytes, FolderIdentity] = {}
        for path in self._paths():
            try:
                seen = os.stat(self._root + b"/" + path)
            except OSError:
                continue  # its server does not answer, or it went this moment
            found[path] = (seen.st_dev, seen.st_ino)
        return found

    def _paths(self) -> list[bytes]:
        """What is mounted below the folder: from the kernel's list, or by asking each that is
        known.
        """
        try:
            lines = _MOUNTINFO.read_bytes().splitlines()
        except OSError:
            return [path for path in self.known if os.path.ismount(self._root + b"/" + path)]
        top = os.path.realpath(self._root).rstrip(b"/") + b"/"
        points = [
            _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4])
            for line in lines
        ]
        return [point[len(top) :] for point in points if point.startswith(top)]


def is_below(path: bytes, folders: list[bytes]) -> bool:
    """Return whether a path lies in one of these folders."""
    return any(path.startswith(folder + b"/") for folder in folders)
