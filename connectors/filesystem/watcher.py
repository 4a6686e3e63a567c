"""Hints from the system about paths that may have changed, by watchfiles.

Every folder is watched by itself, not its whole tree: so links are never followed, a folder is
listed only after its watch is armed, and what is not entered costs nothing. A new folder means a
new watch over all of them, armed before the old one ends. Measured: 70 µs a folder.

watchfiles reports a change by looking for it every few milliseconds, and by then it may have
happened again: a hint is nothing but a path.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from types import TracebackType

from livedex.connectors.filesystem.compat import RustNotify, WatchfilesRustInternalError
from livedex.connectors.filesystem.watch_limits import (
    create_with_watched_inodes,
    unwatched_directories,
)

STEP_MS = 4
DEBOUNCE_MS = 30
_OVERLAP_S = 0.5
_POLL_MS = 40
"""How long a watch is listened to before the thread sees whether it is to end, or to arm another
one.
"""

WATCH_ERRORS = (OSError, WatchfilesRustInternalError)
"""What ends a watch: a name that is not UTF-8, no more watches, a disk that is gone.

Arm again and scan.
"""


class Watcher:
    """A watch on folders, in a thread of its own, for as long as the block lasts.

    Attributes:
        ended: done when the watch has ended, with the error.
        folders: that are watched.
        unwatchable: that cannot be watched.
        refused: of these, those that the system refused to watch: its limits are reached, or they
            are closed.
    """

    def __init__(self, root: bytes, on_hints: Callable[[set[bytes]], None]) -> None:
        """Prepare; nothing is watched yet.

        Args:
            root: absolute.
            on_hints: called in the event loop with relative paths; the root is the empty one.
        """
        self._root = root
        self._on_hints = on_hints
        self._loop = asyncio.get_running_loop()
        self._asked: SimpleQueue[tuple[frozenset[bytes], asyncio.Future[None]]] = SimpleQueue()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.folders: set[bytes] = set()
        self.unwatchable: set[bytes] = set()
        self.refused: set[bytes] = set()

    async def __aenter__(self) -> Watcher:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped = True
        if self._thread is not None:
            await asyncio.shield(asyncio.to_thread(self._thread.join))
        if self.ended.done() and not self.ended.cancelled():
            self.ended.exception()  # taken note of

    async def watch(self, folders: Iterable[bytes]) -> None:
        """Watch these folders too; returns once they are armed. `deaf` keeps those that cannot be
        watched.

        Raises:
            OSError: the system gives no more watches.
            WatchfilesRustInternalError: the watch has ended.
        """
        for folder in folders:
            (self.folders if _is_utf8(self._root + b"/" + folder) else self.unwatchable).add(folder)
        armed: asyncio.Future[None] = self._loop.create_future()
        # what was refused may be possible now
        self._asked.put((frozenset(self.folders | self.refused), armed))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="livedex-watch", daemon=True)
            self._thread.start()
        await asyncio.wait({armed, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        if not armed.done():
            self.ended.result()

    def forget(self, path: bytes) -> None:
        """A folder was moved or removed: its watch, and those below, no longer stand for these
        paths.
        """
        if path in self.folders or path in self.unwatchable:
            below = path + b"/"
            for known in (self.folders, self.unwatchable, self.refused):
                known.difference_update(
                    [folder for folder in known if folder == path or folder.startswith(below)]
                )

    def _run(self) -> None:
        # the one in use last, each with the time at which it is ended
        notifies: list[tuple[RustNotify, float]] = []
        try:
            while not self._stopped:
                self._rearm(notifies)
                *retiring, (notify, _) = notifies
                # no stop event: it would throw away what has come
                self._hand_over(notify.watch(DEBOUNCE_MS, STEP_MS, _POLL_MS, None))
                for old, _ in retiring:
                    self._hand_over(old.watch(DEBOUNCE_MS, 1, 1, None))
                self._end_retired(notifies)
        except Exception as exc:  # noqa: BLE001 - handed to the event loop
            self._call(self._end, exc)
        finally:
            for notify, _ in notifies:
                notify.close()

    def _rearm(self, notifies: list[tuple[RustNotify, float]]) -> None:
        """Arm what is asked for.

        The watch before lives on for a moment: it may hold what happened until now.
        """
        asked = [self._asked.get() for _ in range(self._asked.qsize())]
        if not asked:
            return
        paths = {
            self._root + b"/" + folder if folder else self._root: folder
            for folder in sorted(asked[-1][0])
        }
        notify, inodes = create_with_watched_inodes(
            lambda: RustNotify([os.fsdecode(path) for path in paths], False, False, 0, False, True)
        )
        refused = {paths[path] for path in unwatched_directories(list(paths), inodes)}
        if notifies:
            notifies[-1] = (notifies[-1][0], time.monotonic() + _OVERLAP_S)
        notifies.append((notify, math.inf))
        self._call(self._note_refused, refused)
        for _, armed in asked:
            self._call(_finish, armed)

    def _note_refused(self, folders: set[bytes]) -> None:
        known = self.folders | self.refused  # without those that were forgotten meanwhile
        self.unwatchable -= self.refused
        self.refused = folders & known
        self.folders = known - self.refused
        self.unwatchable |= self.refused

    @staticmethod
    def _end_retired(notifies: list[tuple[RustNotify, float]]) -> None:
        now = time.monotonic()
        for retired in [item for item in notifies if item[1] <= now]:
            retired[0].close()
            notifies.remove(retired)

    def _hand_over(self, changes: set[tuple[int, str]] | str) -> None:
        if isinstance(changes, set):
            at = len(self._root) + 1
            self._call(self._on_hints, {os.fsencode(path)[at:] for _, path in changes})

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            self._stopped = True  # the loop is closed: nobody listens any more

    def _end(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True
