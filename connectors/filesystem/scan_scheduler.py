"""Scans: of the whole folder, and of folders in it that are new or cannot be watched."""

from __future__ import annotations

import asyncio
import logging
import time

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.change_detection import PathCheck
from livedex.connectors.filesystem.file_publisher import FilePublisher
from livedex.connectors.filesystem.folder_scanner import (
    DirectoryWalk,
    FolderScanner,
    list_directories,
)
from livedex.connectors.filesystem.pending_changes import PendingChanges, unstable_paths
from livedex.connectors.filesystem.reconciler import Reconciler
from livedex.connectors.filesystem.safe_file_access import FolderUnavailableError
from livedex.connectors.filesystem.scan_report import ScanReport
from livedex.connectors.filesystem.watch_state import WatchState, retry_delay_s, wait_with_timeout
from livedex.connectors.filesystem.watcher import WATCH_ERRORS
from livedex.pipeline.errors import RetryableError

UNWATCHED_SCAN_INTERVAL_S = 2.0
"""Seconds between two scans of folders that cannot be watched."""

_REARM_S = 0.05

logger = logging.getLogger(__name__)


class ScanScheduler:
    """One scan at a time.

    A new folder is scanned after its watch was armed, so nothing that is put into it is missed.
    """

    def __init__(
        self,
        scanner: FolderScanner,
        updating: FilePublisher,
        following: WatchState,
        hints: PendingChanges,
        *,
        max_delete_share: float,
    ) -> None:
        self._scanner = scanner
        self._folder = scanner.folder
        self._updating = updating
        self._reconciling = Reconciler(scanner, updating, max_delete_share=max_delete_share)
        self._following = following
        self._hints = hints
        self._device: int | None = None
        self._lost_since_ns: int | None = None
        self._withholds = False
        self._new: set[bytes] = set()
        self._is_all_wanted = False
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()

    def request_directory_scan(self, folder: bytes) -> None:
        """A folder that is new, or came back: watch and scan it."""
        self._new.add(folder)
        self._wanted.set()

    def request_full_scan(self) -> None:
        """Hints may have been lost: scan the whole folder."""
        self._is_all_wanted = True
        self._wanted.set()

    def lost(self, since_ns: int | None) -> None:
        """The watch has ended and taken with it what it had to tell since then (wall clock), until
        a scan has made up for that; None: nothing.

        While deletes are withheld, nobody can say which of them it would have told.
        """
        self._lost_since_ns = None if self._withholds else since_ns

    async def all(self, *, repair: bool = False) -> ScanReport:
        """Scan the whole folder.

        Raises:
            FolderUnavailableError, RetryableError: see `Reconciling.reconcile`.
        """
        async with self._turn:
            expected = self._following.identity
            if expected is None:
                expected = await asyncio.to_thread(disk.folder_identity, self._folder.root)
            remounted = self._device not in (None, expected[0])
            is_hinted = self._hints.has_pending if self._following.watcher is not None else None
            report = await self._reconciling.reconcile(
                expected,
                repair=repair,
                remounted=remounted,
                is_hinted=is_hinted,
                lost_since_ns=None if remounted else self._lost_since_ns,
            )
            self._lost_since_ns, self._withholds = None, report.withheld > 0
            if not self._withholds:
                self._device = expected[0]
        self._hints.add(report.waiting | report.failed.keys())
        for folder in report.folders:
            if not self._following.is_watched(folder):
                self.request_directory_scan(folder)
        return report

    async def scan_folder_with_retries(self) -> ScanReport:
        """Scan the whole folder; an outage is waited for.

        Raises:
            FolderUnavailableError: the folder is not there, or another one.
        """
        failures = 0
        while True:
            try:
                return await self.all()
            except RetryableError as exc:
                logger.warning("source %s: the scan waits: %s", self._folder.source.name, exc)
                failures += 1
                await asyncio.sleep(retry_delay_s(failures))

    async def run_directory_scans(self) -> None:
        """Scan folders that are new, and now and then those that cannot be watched, for ever."""
        while True:
            # whether there are such folders changes with each watch
            await wait_with_timeout(self._wanted, UNWATCHED_SCAN_INTERVAL_S)
            self._wanted.clear()
            trees, self._new = _topmost(self._new | self._following.unwatchable), set()
            try:
                if self._is_all_wanted:
                    self._is_all_wanted = False
                    await self.scan_folder_with_retries()
                while trees:
                    trees = await self._below(trees)
            except RetryableError as exc:
                logger.warning("source %s: new folders wait: %s", self._folder.source.name, exc)
                await asyncio.sleep(retry_delay_s(1))
                self._new |= trees
                self._wanted.set()
            except (FolderUnavailableError, *WATCH_ERRORS):
                # whoever watches the folder tells of it, and scans it all when it is back
                await asyncio.sleep(retry_delay_s(0))

    async def _below(self, trees: set[bytes]) -> set[bytes]:
        """Watch and scan some folders; those below them that came meanwhile and have to be scanned
        after all.
        """
        began = time.monotonic()
        watcher = self._following.watcher
        if watcher is not None:
            folders = await asyncio.to_thread(_folders_below, self._scanner, trees)
            # arming takes its time, whatever is new
            if new := [folder for folder in folders if not self._following.is_watched(folder)]:
                await watcher.watch(new)
        later: set[bytes] = set()
        async with self._turn:
            await self._reconciling.refresh_mounts()
            for tree in trees:
                later.update(await self._one(tree))
        # while a tree grows, half of the time at most goes into it
        await asyncio.sleep(max(time.monotonic() - began, _REARM_S))
        return later

    async def _one(self, tree: bytes) -> list[bytes]:
        walk = DirectoryWalk(self._folder, tree)
        async for block in self._scanner.blocks(walk):
            findings = await self._updating.update(
                [PathCheck(path) for path, _ in block.differing], self._following.identity
            )
            self._hints.add(unstable_paths(findings))
            self._hints.add(row.path for row in block.gone)
        return [folder for folder in walk.folders if not self._following.is_watched(folder)]


def _topmost(folders: set[bytes]) -> set[bytes]:
    """Those that lie in no other one."""
    found: list[bytes] = []
    for folder in sorted(folders, key=lambda path: path + b"/"):
        if not found or not (folder + b"/").startswith(found[-1] + b"/" if found[-1] else b""):
            found.append(folder)
    return set(found)


def _folders_below(scanner: FolderScanner, trees: set[bytes]) -> set[bytes]:
    return {folder for tree in trees for folder in list_directories(scanner.folder, tree)}
