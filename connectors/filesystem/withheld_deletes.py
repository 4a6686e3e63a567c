"""Which deletes a scan must not publish, though the files are gone: those withheld before, and
those below mount points that are not mounted.

What is withheld stands in the database, so a restart, a later scan or other files change nothing
about it. It ends when the file is there again, or when somebody confirms it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.folder import Folder
from livedex.connectors.filesystem.folder_scanner import FolderScanner
from livedex.connectors.filesystem.mount_points import is_below
from livedex.connectors.filesystem.safe_file_access import FolderIdentity
from livedex.connectors.filesystem.scan_report import ScanReport
from livedex.pipeline.store.source_store import FolderState

DeleteDecision = Literal["free", "withheld", "lost", "confirmed"]


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file that a scan did not find.

    Attributes:
        recorded: the ledger has it; false: only its document is there.
        fate: `withheld` by an earlier scan; `lost`: below a mount point that is not mounted, for
            the first time; `confirmed`: it is to go.
    """

    path: bytes
    sha256: bytes | None
    recorded: bool = True
    fate: DeleteDecision = "free"


@dataclass(frozen=True, slots=True)
class WithheldDeletes:
    """What is known at the begin of a scan.

    Attributes:
        paths: of files whose deletes were withheld, each with whether that it goes was confirmed
            since.
        lost: mount points that are not mounted.
        swapped: mount points at which something else is mounted than at the last scan.
        remounted: the folder itself is another one than at the last scan of an earlier process.
    """

    paths: dict[bytes, bool]
    lost: list[bytes]
    swapped: set[bytes]
    remounted: bool


class WithheldDeleteStore:
    """Withheld deletes and mount points of one folder, as they are kept in the database."""

    def __init__(self, scanner: FolderScanner, *, max_delete_share: float) -> None:
        self._folder: Folder = scanner.folder
        self._ledger = scanner.ledger
        self._store = scanner.ledger.withheld
        self._max_delete_share = max_delete_share
        self._is_loaded = False

    async def load(self, identity: FolderIdentity) -> WithheldDeletes:
        """Return what was withheld; mount points that are new are kept before any file below is
        published.

        Args:
            identity: of the folder.
        """
        mounts, remounted = self._folder.mounts, False
        if not self._is_loaded:
            stored = await self._store.folder()
            mounts.known = {**stored.mounts, **mounts.known}
            remounted, self._is_loaded = stored.identity not in (None, identity), True
        swapped = await self.refresh_mounts()
        return WithheldDeletes(
            await self._store.paths(), await asyncio.to_thread(mounts.lost), swapped, remounted
        )

    async def refresh_mounts(self) -> set[bytes]:
        """Keep mount points that are new, before any file below them is published; those at which
        something else is mounted than before.
        """
        mounts = self._folder.mounts
        if not self._is_loaded:
            return set()  # the first scan comes first: it knows what was mounted before
        before = dict(mounts.known)
        swapped = await asyncio.to_thread(mounts.refresh)
        if mounts.known != before:
            await self._store.save_mounts(self._state(None))
        return swapped

    async def classify(
        self,
        withheld: WithheldDeletes,
        gone: Sequence[MissingFile],
        expected: FolderIdentity,
        *,
        confirmed: bool,
    ) -> list[MissingFile]:
        """Return the files that are gone with the fate of each; deletes of files that are there
        again are no longer withheld.

        Args:
            withheld: deletes that are withheld already.
            gone: files that are missing.
            expected: the folder as it was.
            confirmed: all of them are to go.

        Raises:
            FolderUnavailableError: the folder is not there, or another one.
        """
        absent = await asyncio.to_thread(
            _absent, self._folder, expected, {row.path for row in gone} | set(withheld.paths)
        )
        await self._store.release([path for path in withheld.paths if path not in absent])
        swapped = await self._mostly_gone(withheld.swapped, gone)
        lost = [*withheld.lost, *swapped]
        return [
            replace(row, fate=_fate(row, withheld, lost, absent, confirmed=confirmed))
            for row in gone
        ]

    async def _mostly_gone(
        self, mounts: Iterable[bytes], gone: Sequence[MissingFile]
    ) -> list[bytes]:
        """The mount points below which a larger share is gone than goes by itself: another disk is
        mounted there.
        """
        found = []
        for mount in mounts:
            number = sum(is_below(row.path, [mount]) for row in gone)
            if number and number > self._max_delete_share * len(
                await self._ledger.list_below([mount])
            ):
                found.append(mount)
        return found

    async def keep(self, gone: Sequence[MissingFile], many: Collection[bytes]) -> None:
        """Withhold deletes from now on.

        Args:
            gone: files that are missing, with their fates.
            many: paths that are too many at once.
        """
        await self._store.withhold_deletes(sorted(many), "many")
        await self._store.withhold_deletes(
            [row.path for row in gone if row.fate == "lost"], "mount"
        )

    async def save_scan(self, identity: FolderIdentity, report: ScanReport) -> None:
        """Keep what the scan has found; a mount point that no file is known below any more is
        forgotten.
        """
        for mount in await asyncio.to_thread(self._folder.mounts.lost):
            if not await self._ledger.list_below([mount]):
                self._folder.mounts.known.pop(mount, None)
        await self._store.save_folder(self._state(identity), report.left_out)

    def _state(self, identity: FolderIdentity | None) -> FolderState:
        return FolderState(self._folder.path, identity, dict(self._folder.mounts.known))


def _fate(
    row: MissingFile,
    withheld: WithheldDeletes,
    lost: list[bytes],
    absent: set[bytes],
    *,
    confirmed: bool,
) -> DeleteDecision:
    if row.path not in absent:
        return "free"
    if confirmed or withheld.paths.get(row.path):
        return "confirmed"
    if row.path in withheld.paths:
        return "withheld"
    return "lost" if is_below(row.path, lost) else "free"


def _absent(folder: Folder, expected: FolderIdentity, paths: Collection[bytes]) -> set[bytes]:
    """Those of the paths at which nothing stands, or of which that cannot be said."""
    if not paths:
        return set()
    with disk.open_folder(folder.root, expected) as root:
        return {
            path for path in paths if disk.inspect_path(root, path).kind in ("absent", "hidden")
        }
