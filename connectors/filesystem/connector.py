"""The folder connector: keeps what is published of a folder true to its files, while it runs and
whenever it starts.

Arm first, then scan: what changes during the scan is hinted at. A hint is a path and nothing more;
the file decides, once it has come to rest (see `settling`). Hints get lost (a full queue of the
kernel, a name that watchfiles cannot tell), so the whole folder is compared with the ledger at the
start, whenever the watch was renewed, every `reconcile_interval_s`, and when asked.

    watching ──hints──► settling ──at rest──► updating ──► intake, then ledger
                            ▲ new folders         ▲
                            └──── scanning ───────┘

Versions are the wall clock in nanoseconds at the look, and always above the last version of the
document, for the times of files go back. Links in the folder are no documents and are not followed;
the folder itself may be a link.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.comparison import FolderComparison, compare_folder
from livedex.connectors.filesystem.debouncer import MAX_DELAY_S
from livedex.connectors.filesystem.file_publisher import FilePublisher
from livedex.connectors.filesystem.folder import open_source_folder
from livedex.connectors.filesystem.folder_scanner import (
    FolderScanner,
    count_files,
    list_directories,
)
from livedex.connectors.filesystem.pending_changes import PendingChanges
from livedex.connectors.filesystem.safe_file_access import FolderUnavailableError
from livedex.connectors.filesystem.scan_report import ScanReport
from livedex.connectors.filesystem.scan_scheduler import ScanScheduler
from livedex.connectors.filesystem.skipped_files import skipped_files_summary
from livedex.connectors.filesystem.watch_limits import is_watch_limit_error, watch_limit_advice
from livedex.connectors.filesystem.watch_state import WatchState, retry_delay_s, wait_with_timeout
from livedex.connectors.filesystem.watcher import WATCH_ERRORS, Watcher
from livedex.pipeline.ingest.ingester import Ingester
from livedex.pipeline.model import DEFAULT_MAX_DOCUMENT_BYTES, GenerationId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.source_file_store import SourceFileStore

HealthCallback = Callable[[str, str | None], Awaitable[None]]
"""Told `ok` or `down` of a source, and what to do, whenever that changes."""

ROOT_CHECK_S = 1.0
_LONG_LIVED_S = 10.0
_PATIENCE = 5

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderOptions:
    """How a folder is followed.

    Attributes:
        max_document_bytes: a larger file is not read, its document says so.
        max_delete_share: of all files of the source; a scan that finds more gone publishes none of
            these deletes.
        reconcile_interval_s: seconds between two scans of the whole folder.
        max_delay_s: a file that never rests is published this often.
        ignored: paths that are never documents, such as the data directory.
        cut: how texts are cut now, as in `documents.cut`; documents cut in another way are
            published anew. '' does not look.
        generation: that vectors are made for now; documents of another are published anew. None
            does not look.
    """

    max_document_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES
    max_delete_share: float = 0.5
    reconcile_interval_s: float = 300.0
    max_delay_s: float = MAX_DELAY_S
    ignored: Sequence[Path] = ()
    cut: str = ""
    generation: GenerationId | None = None


class FolderConnector:
    """One watched folder, or one watched file.

    Attributes:
        ready: set once the watch is armed and the first scan has published all it found, what was
            being written after the longest
            delay at the latest; also when the folder is not there, which the health says.
    """

    def __init__(
        self,
        source: FolderSource,
        *,
        ledger: SourceFileStore,
        intake: Ingester,
        readable: Callable[[str], bool],
        options: FolderOptions | None = None,
        on_health: HealthCallback | None = None,
    ) -> None:
        """Prepare; of the disk no more is asked than whether the path is a file.

        Args:
            source: the source, as the settings describe it.
            ledger: the files that were published.
            intake: accepts the changes.
            readable: whether there is a reader for a file of this name; asked where the source has
                no `include`.
            options: intervals and limits.
            on_health: called with the state of the source and its reason.

        Raises:
            ConfigError: a glob without sense.
        """
        o = options or FolderOptions()
        self._folder = open_source_folder(
            source, readable=readable, ignored=o.ignored, max_bytes=o.max_document_bytes
        )
        self._scanner = FolderScanner(self._folder, ledger, o.cut, o.generation)
        self._interval_s = o.reconcile_interval_s
        self._following = WatchState()
        updating = FilePublisher(self._folder, ledger, intake)
        self._is_watch_over = asyncio.Event()
        self._hints = PendingChanges(
            self._folder,
            ledger,
            updating,
            self._following,
            on_folder=self._on_folder,
            on_flood=self._on_flood,
            on_root=self._is_watch_over.set,
            max_delay_s=o.max_delay_s,
        )
        self._scanning = ScanScheduler(
            self._scanner,
            updating,
            self._following,
            self._hints,
            max_delete_share=o.max_delete_share,
        )
        self._on_health = on_health
        self._health: tuple[str, str | None] | None = None
        self._logged: set[str] = set()
        self._updating = updating
        self._report = ScanReport()
        self._deaf_cause: str | None = None
        self.ready = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Watch the folder until `stop` is set; wait out outages and an unmounted folder."""
        self._following.is_running = True
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(work())
                    for work in (
                        self._run_watch,
                        self._hints.run,
                        self._scanning.run_directory_scans,
                        self._run_periodic_scans,
                    )
                ]
                await stop.wait()
                for task in tasks:
                    task.cancel()
        finally:
            self._following.is_running = False

    async def reconcile(self, *, repair: bool = False) -> ScanReport:
        """Compare the whole folder and publish what is missing, files included that were still
        being written at the call.

        Works with and without `run`.

        Args:
            repair: also publish deletes that were withheld, and what the index has lost.

        Returns:
            What was found; `problem` says why when the folder is not there.

        Raises:
            RetryableError: the broker or the database is away.
        """
        try:
            report = await self._scanning.all(repair=repair)
            await self._hints.wait_processed(report.waiting | self._hints.pending())
        except FolderUnavailableError as exc:
            return ScanReport(problem=str(exc))
        await self._report_scan(report)
        return report

    async def count_files(self) -> int:
        """Return how many files of the folder count as documents, from their names alone; 0 where
        the folder is not there.
        """
        try:
            return await asyncio.to_thread(count_files, self._folder)
        except FolderUnavailableError:
            return 0

    async def compare(self, *, index: bool = False) -> FolderComparison:
        """What `reconcile` would publish, without publishing it.

        Args:
            index: also name files whose document the index lacks; true only while nothing is under
                way.

        Raises:
            OutageError: the folder or the database is away.
        """
        return await compare_folder(self._scanner, index=index)

    def _on_folder(self, path: bytes) -> None:
        self._scanning.request_directory_scan(path)

    def _on_flood(self) -> None:
        self._scanning.request_full_scan()

    async def _run_watch(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await self._watch()
                failures = 0
            except FolderUnavailableError as exc:
                await self._tell(
                    "down", f"{exc}: no document is deleted; it goes on when the folder is back."
                )
                self.ready.set()
                await asyncio.sleep(ROOT_CHECK_S)
            except WATCH_ERRORS as exc:
                failures = failures + 1 if time.monotonic() - began < _LONG_LIVED_S else 0
                self._log_once(
                    f"the watch has ended ({exc}): it is armed again, and the folder scanned"
                )
                if failures >= _PATIENCE or isinstance(exc, OSError) or is_watch_limit_error(exc):
                    await self._poll_without_watch(exc)
                await asyncio.sleep(retry_delay_s(failures))

    async def _watch(self) -> None:
        """Arm, scan, and return when the folder may have become another one.

        Raises:
            FolderUnavailableError: it is not there.
            OSError, WatchfilesRustInternalError: the watch could not be armed, or has ended.
        """
        identity = await asyncio.to_thread(disk.folder_identity, self._folder.root)
        folders = await asyncio.to_thread(list_directories, self._folder)
        self._is_watch_over.clear()
        armed_ns = time.time_ns()
        async with Watcher(self._folder.root, self._hints.take) as watcher:
            watcher.ended.add_done_callback(lambda _: self._is_watch_over.set())
            await watcher.watch(folders)
            if self._following.identity not in (None, identity):
                self._hints.forget()  # they were about another folder; the scan finds what there is
                self._scanning.lost(None)
            self._following.watcher, self._following.identity = watcher, identity
            try:
                report = await self._scanning.scan_folder_with_retries()
                await self._report_scan(report)
                await self._hints.wait_processed(report.waiting)
                self.ready.set()
                while await asyncio.to_thread(disk.folder_identity, self._folder.root) == identity:
                    await self._report_current_health()
                    await wait_with_timeout(self._is_watch_over, ROOT_CHECK_S)
                    if watcher.ended.done():
                        self._scanning.lost(armed_ns)
                        watcher.ended.result()
                    if self._is_watch_over.is_set():
                        await asyncio.sleep(retry_delay_s(0))
                        return
            finally:
                self._following.watcher = None

    async def _poll_without_watch(self, cause: Exception) -> None:
        """Scan where nothing can be watched."""
        self._deaf_cause = (
            f"the folder cannot be watched ({cause}) and is scanned every few seconds: "
            f"{watch_limit_advice(cause)}"
        )
        try:
            self._following.identity = await asyncio.to_thread(
                disk.folder_identity, self._folder.root
            )
            await self._report_scan(await self._scanning.scan_folder_with_retries())
        except FolderUnavailableError as exc:
            logger.warning("source %s: %s", self._folder.source.name, exc)
        self.ready.set()

    async def _run_periodic_scans(self) -> None:
        await self.ready.wait()
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                if (watcher := self._following.watcher) is not None and watcher.refused:
                    await watcher.watch(())  # somebody may have raised the limit
                await self._report_scan(await self._scanning.scan_folder_with_retries())
            except (FolderUnavailableError, *WATCH_ERRORS):
                continue  # `_keep_watching` tells of it, and scans when it is back

    def _log_once(self, what: str, level: int = logging.WARNING) -> None:
        if what not in self._logged:
            self._logged.add(what)
            logger.log(level, "source %s: %s", self._folder.source.name, what)

    async def _report_scan(self, report: ScanReport) -> None:
        self._report = report
        for line in skipped_files_summary(report.left_out):
            self._log_once(line, logging.INFO)
        await self._report_current_health()

    async def _report_current_health(self) -> None:
        """Tell what the last scan found, what could not be published since, and what cannot be
        watched.
        """
        self._report.failed = dict(self._updating.problems)
        advice, unwatched = self._report.operator_message, self._watch_advice()
        await self._tell(
            "down" if advice or self._deaf_cause else "ok",
            " ".join(part for part in (advice, unwatched) if part) or None,
        )

    def _watch_advice(self) -> str | None:
        """What to do about folders that the system refused to watch; None where it watches all."""
        watcher = self._following.watcher
        if watcher is None:
            return self._deaf_cause
        self._deaf_cause = None
        if not watcher.refused:
            return None
        total = len(watcher.folders | watcher.unwatchable)
        return (
            f"{len(watcher.refused):,} of {total:,} folders are not watched and scanned every "
            f"few seconds instead: {watch_limit_advice()}"
        )

    async def _tell(self, state: str, detail: str | None) -> None:
        if (state, detail) == self._health:
            return
        self._health = (state, detail)
        if detail is not None:
            logger.warning("source %s: %s", self._folder.source.name, detail)
        if self._on_health is not None:
            await self._on_health(state, detail)
