"""What the parts of a running connector share: the folder as it was when its watch was armed, and
the waits after an outage.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from livedex.connectors.filesystem.safe_file_access import FolderIdentity
from livedex.connectors.filesystem.watcher import Watcher

_RETRY_S = (0.25, 0.5, 1.0, 2.0, 5.0)


@dataclass
class WatchState:
    """The folder that is followed at the moment.

    Attributes:
        identity: which folder it is; None before it was first seen. Nothing is published of another
            one.
        watcher: armed on it; None while it is not watched.
        is_running: whether hints are dealt with by themselves.
    """

    identity: FolderIdentity | None = None
    watcher: Watcher | None = None
    is_running: bool = False

    @property
    def unwatchable(self) -> set[bytes]:
        """Folders whose changes the system cannot tell."""
        return set(self.watcher.unwatchable) if self.watcher is not None else set()

    def is_watched(self, folder: bytes) -> bool:
        """Whether its changes are told, or it is known that they are not; true where nothing is
        watched at all.
        """
        return (
            self.watcher is None
            or folder in self.watcher.folders
            or folder in self.watcher.unwatchable
        )


def retry_delay_s(failures: int) -> float:
    """How long to wait after this many failures in a row; longer each time, up to 5 seconds."""
    return _RETRY_S[min(failures, len(_RETRY_S) - 1)]


async def wait_with_timeout(event: asyncio.Event, timeout_s: float) -> None:
    """Until it is set, or the time is over; an infinite time is allowed."""
    try:
        async with asyncio.timeout(None if math.isinf(timeout_s) else max(timeout_s, 0.0)):
            await event.wait()
    except TimeoutError:
        return
