"""Turns hints into published changes, once what they hint at has come to rest."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from livedex.connectors.filesystem.change_detection import PathCheck, PathFinding
from livedex.connectors.filesystem.debouncer import Debouncer, PendingPath
from livedex.connectors.filesystem.file_publisher import BATCH_FILES, FilePublisher
from livedex.connectors.filesystem.fingerprint import Fingerprint
from livedex.connectors.filesystem.folder import Folder
from livedex.connectors.filesystem.read_budget import ReadBudget
from livedex.connectors.filesystem.safe_file_access import FolderUnavailableError
from livedex.connectors.filesystem.watch_state import WatchState, retry_delay_s, wait_with_timeout
from livedex.pipeline.errors import RetryableError
from livedex.pipeline.store.source_file_store import SourceFileStore

_FIRST_CHECK_S = 0.01
"""Nothing is at rest earlier, for the hint itself has taken some milliseconds."""
_OVERFLOW_EVENTS = 4_000
"""Hints at once.

The kernel keeps 16,384 and says nothing that watchfiles would pass on when it drops some.
"""

logger = logging.getLogger(__name__)


class PendingChanges:
    """The paths that may have changed, and the one who deals with them."""

    def __init__(
        self,
        folder: Folder,
        ledger: SourceFileStore,
        updating: FilePublisher,
        following: WatchState,
        *,
        on_folder: Callable[[bytes], None],
        on_flood: Callable[[], None],
        on_root: Callable[[], None],
        max_delay_s: float,
    ) -> None:
        """Prepare.

        Args:
            folder: the watched folder.
            ledger: the files that were published.
            updating: where files are published.
            following: whether the folder reports changes.
            on_folder: called with each hinted path that is a folder.
            on_flood: called when so many hints come at once that some may have been lost.
            on_root: called when a hint is about the folder itself: it may be another one now, under
                the number of the one before.
            max_delay_s: a file that never rests is published this often.
        """
        self._folder = folder
        self._ledger = ledger
        self._updating = updating
        self._following = following
        self._on_folder = on_folder
        self._on_flood = on_flood
        self._on_root = on_root
        self._settling = Debouncer(max_delay_s)
        self._budget = ReadBudget()
        self._hurried: set[bytes] = set()
        self._added = asyncio.Event()

    def take(self, paths: Collection[bytes]) -> None:
        """Paths that may have changed, as the system tells them."""
        if len(paths) >= _OVERFLOW_EVENTS:
            self._on_flood()
        if b"" in paths:
            self.forget()
            self._on_root()
            return
        matcher, watcher = self._folder.matcher, self._following.watcher
        now = time.monotonic()
        for path in paths:
            if watcher is not None:
                watcher.forget(path)
            if (
                path
                and matcher.is_reachable(path)
                and (matcher.is_document(path) or matcher.enters_directory(path))
            ):
                self._settling.schedule(path, now, delay_s=_FIRST_CHECK_S)
        self._added.set()

    def add(self, paths: Iterable[bytes]) -> None:
        """Paths of documents that must be looked at again."""
        now = time.monotonic()
        for path in paths:
            self._settling.schedule(path, now)
        self._added.set()

    def forget(self) -> None:
        """Drop every hint, where a scan is to follow: they may have been about another folder."""
        self._settling.clear()

    def pending(self) -> set[bytes]:
        """The paths that are not dealt with yet."""
        return self._settling.pending()

    def has_pending(self, path: bytes) -> bool:
        """Whether something may have happened at this path, or at a folder above, that is not
        dealt with yet.
        """
        while path:
            if self._settling.is_pending(path):
                return True
            path = path.rpartition(b"/")[0]
        return False

    async def wait_processed(self, paths: set[bytes]) -> None:
        """Until these paths were dealt with, or their longest delay is over; works without
        `keep_settling` too.

        Raises:
            FolderUnavailableError, RetryableError: see `Updating.update`.
        """
        self._hurried |= paths  # somebody waits: what a file costs is no matter
        self.add(path for path in paths if self._settling.is_pending(path))
        end = time.monotonic() + self._settling.max_delay_s + 1
        while any(self._settling.is_pending(path) for path in paths) and time.monotonic() < end:
            if not self._following.is_running and self._settling.next_due() <= time.monotonic():
                await self._settle_due()
            else:
                await asyncio.sleep(0.005)
        self._hurried -= paths

    async def run(self) -> None:
        """Deal with hints for ever; outages and a folder that is away are waited for."""
        failures = 0
        while True:
            self._added.clear()
            delay_s = self._settling.next_due() - time.monotonic()
            if delay_s > 0:
                await wait_with_timeout(self._added, delay_s)
                continue
            try:
                await self._settle_due()
                failures = 0
            except FolderUnavailableError:
                await asyncio.sleep(retry_delay_s(0))  # whoever watches the folder tells of it
            except RetryableError as exc:
                logger.warning("source %s: changes wait: %s", self._folder.source.name, exc)
                failures += 1
                await asyncio.sleep(retry_delay_s(failures))

    async def _settle_due(self) -> None:
        now = time.monotonic()
        taken = self._settling.take(now, BATCH_FILES)
        try:
            findings = await self._updating.update(
                [self._request(waiting, now) for waiting in taken], self._following.identity
            )
            further = await self._ledger.list_below(
                [finding.path for finding in findings if _was_perhaps_a_folder(finding)]
            )
            further += await self._ledger.ending(
                [_tail(finding) for finding in findings if _has_other_names(finding)]
            )
        except (RetryableError, FolderUnavailableError):
            for waiting in taken:
                self._settling.reschedule(waiting, now, retry_delay_s(0))
            raise
        for waiting, finding in zip(taken, findings, strict=True):
            self._settle(waiting, finding)
        self.add(further)

    def _request(self, waiting: PendingPath, now: float) -> PathCheck:
        return PathCheck(
            waiting.path,
            read_wait_s=0.0
            if waiting.path in self._hurried
            else self._budget.wait_s(waiting.path, now),
            overdue=self._settling.is_overdue(waiting, now),
            quiet_s=self._settling.quiet_s(waiting.path, now),
            unchanged_s=now - waiting.seen_since if waiting.seen is not None else 0.0,
            absent_s=now - waiting.absent_since if waiting.absent_since is not None else 0.0,
        )

    def _settle(self, waiting: PendingPath, finding: PathFinding) -> None:
        now = time.monotonic()
        waiting.note(finding.kind, finding.stat, now)
        if finding.has_change:
            self._settling.record_published(waiting.path, now)
            if finding.stat is not None:
                self._budget.note(waiting.path, finding.stat.st_size, now)
            waiting.first = now
        if finding.kind == "folder":
            self._on_folder(waiting.path)
        if finding.wait_s is None:
            self._settling.done(waiting)
        else:
            self._settling.reschedule(waiting, now, finding.wait_s)


def _was_perhaps_a_folder(finding: PathFinding) -> bool:
    if finding.wait_s is not None or finding.kind in ("folder", "hidden"):
        return False
    return finding.kind != "file" or not finding.existed_before


def _has_other_names(finding: PathFinding) -> bool:
    """Whether a change was published that other names of the file (hard links) show too: the
    system tells of it under one of them.
    """
    return finding.action == "publish" and finding.stat is not None and finding.stat.st_nlink > 1


def _tail(finding: PathFinding) -> str:
    return Fingerprint.parse(finding.fingerprint).inode_and_attributes


def unstable_paths(findings: Sequence[PathFinding]) -> list[bytes]:
    """The paths that were not at rest."""
    return [finding.path for finding in findings if finding.wait_s is not None]
