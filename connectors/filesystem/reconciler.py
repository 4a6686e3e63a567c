"""Comparing the whole folder with the ledger and publishing exactly what is missing.

Deletes come last, and only after each path was looked at: a folder that is missing, closed or
another one than before says nothing about its files. Where a scan finds more files gone than
`max_delete_share` of all, none of these is published: a disk that is not mounted looks just so. A
file that turned up elsewhere, that the settings now leave out, or whose end the system has told of,
is not counted. Nor is a delete published of a file below a mount point that is not mounted. What
was withheld once stays so, over restarts, until the file is there again or somebody confirms the
delete; see `withheld_deletes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.change_detection import PathCheck, PathFinding
from livedex.connectors.filesystem.document_ids import path_from_document_id
from livedex.connectors.filesystem.file_publisher import FilePublisher
from livedex.connectors.filesystem.folder import Folder
from livedex.connectors.filesystem.folder_scanner import DirectoryWalk, FolderScanner, ScanBatch
from livedex.connectors.filesystem.safe_file_access import FolderIdentity, PathStatus
from livedex.connectors.filesystem.scan_report import ScanReport
from livedex.connectors.filesystem.withheld_deletes import MissingFile, WithheldDeleteStore

DELETE_LIMIT_MIN_DOCUMENTS = 20
"""Below as many documents, all of them may go at once."""

_EVENT_DELAY_S = 0.2
"""A hint that is on its way has come by then."""


class Reconciler:
    """Runs one scan of the whole folder; see `Scanner` for what counts as changed."""

    def __init__(
        self, scanner: FolderScanner, updating: FilePublisher, *, max_delete_share: float
    ) -> None:
        self._scanner = scanner
        self._folder = scanner.folder
        self._updating = updating
        self._max_delete_share = max_delete_share
        self._withheld = WithheldDeleteStore(scanner, max_delete_share=max_delete_share)

    async def reconcile(
        self,
        expected: FolderIdentity,
        *,
        repair: bool = False,
        remounted: bool = False,
        is_hinted: Callable[[bytes], bool] | None = None,
        lost_since_ns: int | None = None,
    ) -> ScanReport:
        """Publish what is missing.

        Args:
            expected: the folder; when it is another one in the end, no delete is published.
            repair: publish deletes however many they are, and what the index has lost.
            remounted: the folder lies on another device than before, so that even few documents are
                not deleted all at once.
            is_hinted: whether the system has told of a change at this path or above, which is still
                to be dealt with; None where nothing is
                watched.
            lost_since_ns: wall clock; hints were lost that came since. What is gone from a folder
                that has changed since counts as told of: that
                is how a delete leaves it, and a disk that is away does not.

        Raises:
            FolderUnavailableError: the folder is not there, or another one.
            RetryableError: the broker or the database is away; the next scan goes on.
        """
        report = ScanReport(self._folder.source.name)
        walk = DirectoryWalk(self._folder)
        withheld = await self._withheld.load(expected)
        gone: list[MissingFile] = []
        contents: set[bytes] = set()
        self._updating.problems.clear()
        async for block in self._scanner.blocks(walk, index=repair):
            contents |= await self._publish(block, expected, report)
            gone += [MissingFile(row.path, row.sha256) for row in block.gone]
        strays = await self._strays(repair, known={row.path for row in gone})
        gone += strays
        report.known += len(strays)
        report.folders, report.left_out = walk.folders, walk.left_out.as_object()
        gone = await self._withheld.classify(withheld, gone, expected, confirmed=repair)
        report.moved, kept = await self._to_withhold(
            [row for row in gone if row.fate == "free"], contents, expected, report.known, is_hinted
        )
        if lost_since_ns is not None:
            kept -= await asyncio.to_thread(
                _deleted_since, self._folder, expected, kept, lost_since_ns
            )
        standing = sum(row.fate == "withheld" for row in gone)
        lost = sum(row.fate == "lost" for row in gone)
        least = 1 if remounted or withheld.remounted else DELETE_LIMIT_MIN_DOCUMENTS
        counted = report.known - lost
        is_many = (
            len(kept) > self._max_delete_share * (counted - standing)
            or len(kept) + standing > self._max_delete_share * counted
        )
        if repair or not kept or report.known < least or not is_many:
            kept = set()
        await self._withheld.keep(gone, kept)
        report.withheld = standing + lost + len(kept)
        report.unmounted = withheld.lost if lost or standing else []
        going = [row for row in gone if row.path not in kept and row.fate in ("free", "confirmed")]
        for finding in await self._updating.update(
            [PathCheck(row.path, confirmed=row.fate == "confirmed") for row in going], expected
        ):
            report.deleted += finding.action == "delete"
        report.failed = dict(self._updating.problems)
        await self._withheld.save_scan(expected, report)
        return report

    async def refresh_mounts(self) -> None:
        """See what is mounted, before files below are published by who does not scan the whole
        folder.
        """
        await self._withheld.refresh_mounts()

    async def _publish(
        self, block: ScanBatch, expected: FolderIdentity, report: ScanReport
    ) -> set[bytes]:
        """Publish what is new, changed or outdated; the hashes of what was added."""
        known = {row.path for _, row in block.differing if row is not None} | {
            row.path for row, _ in block.outdated
        }
        requests = [PathCheck(path) for path, _ in block.differing] + [
            PathCheck(row.path, force=True) for row, _ in block.outdated
        ]
        report.known += block.known
        report.unchanged += block.unchanged
        report.unreadable += block.hidden
        contents: set[bytes] = set()
        for finding in await self._updating.update(requests, expected):
            self._count(finding, report, is_known=finding.path in known)
            if finding.sha256 is not None and finding.path not in known:
                contents.add(finding.sha256)
        return contents

    @staticmethod
    def _count(finding: PathFinding, report: ScanReport, *, is_known: bool) -> None:
        if finding.error is not None or finding.kind == "hidden":
            report.unreadable += 1
        if finding.wait_s is not None and finding.error is None:
            report.waiting.add(finding.path)
        if finding.action in ("publish", "wait"):
            if is_known:
                report.changed += 1
            else:
                report.added += 1
        elif finding.action == "delete":
            report.deleted += 1
        else:
            report.unchanged += finding.error is None and finding.kind == "file"

    async def _strays(self, repair: bool, known: set[bytes]) -> list[MissingFile]:
        """Documents without a file in the ledger: a crash between publishing and recording, and
        the file went before the next start.
        """
        strays = [
            path_from_document_id(self._folder.source.name, document)
            for document in await self._scanner.ledger.orphaned_documents(lost=repair)
        ]
        return [
            MissingFile(path, None, recorded=False)
            for path in strays
            if path is not None and path not in known
        ]

    async def _to_withhold(
        self,
        gone: Sequence[MissingFile],
        contents: set[bytes],
        expected: FolderIdentity,
        known: int,
        is_hinted: Callable[[bytes], bool] | None,
    ) -> tuple[int, set[bytes]]:
        """How many files have moved, and the paths of those of whose end nothing was told."""
        if not gone:
            return 0, set()
        looks = await asyncio.to_thread(_looks, self._folder, expected, [row.path for row in gone])
        absent = [row for row, seen in zip(gone, looks, strict=True) if seen.kind == "absent"]
        left = [row for row in absent if row.sha256 not in contents]
        moved = len(absent) - len(left)
        if is_hinted is not None and len(left) > self._max_delete_share * known:
            await asyncio.sleep(_EVENT_DELAY_S)
            left = await self._still_there([row for row in left if not is_hinted(row.path)])
        return moved, {row.path for row in left}

    async def _still_there(self, rows: Sequence[MissingFile]) -> list[MissingFile]:
        """Those whose delete was not published meanwhile, as a hint leads to."""
        known = await self._scanner.ledger.known(
            [(row.path, self._folder.document_id(row.path)) for row in rows]
        )
        return [row for row in rows if not row.recorded or known[row.path].fingerprint is not None]


def _looks(folder: Folder, expected: FolderIdentity, paths: Sequence[bytes]) -> list[PathStatus]:
    with disk.open_folder(folder.root, expected) as root:
        return [disk.inspect_path(root, path) for path in paths]


def _deleted_since(
    folder: Folder, expected: FolderIdentity, paths: Iterable[bytes], since_ns: int
) -> set[bytes]:
    """Those of the paths whose folder, or where it is gone too the one above, has changed since."""
    changed: dict[bytes, bool] = {}
    with disk.open_folder(folder.root, expected) as root:
        return {
            path
            for path in paths
            if _has_changed(root, path.rpartition(b"/")[0], since_ns, changed)
        }


def _has_changed(root: int, path: bytes, since_ns: int, known: dict[bytes, bool]) -> bool:
    while path not in known:
        changed_ns = disk.directory_mtime_ns(root, path)
        if changed_ns is None and path:
            path = path.rpartition(b"/")[0]
        else:
            known[path] = changed_ns is not None and changed_ns >= since_ns
    return known[path]
