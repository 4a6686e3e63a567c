"""Bringing documents up to date with their files: look, publish what differs, then record it.

Versions are the wall clock in nanoseconds at the look, and always above the last version of the
document, tombstones included: the times of files go back with every restore. What was published and
not recorded, after a crash, is published once more, which does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from livedex.connectors.filesystem.change_detection import PathCheck, PathFinding, detect_changes
from livedex.connectors.filesystem.credential_files import is_credential_file
from livedex.connectors.filesystem.document_ids import path_to_text
from livedex.connectors.filesystem.folder import Folder
from livedex.connectors.filesystem.safe_file_access import FolderIdentity, FolderUnavailableError
from livedex.pipeline.errors import RejectedError, RetryableError
from livedex.pipeline.ingest.ingester import Change, Ingester
from livedex.pipeline.store.documents.version_allocator import VERSION_LIMIT
from livedex.pipeline.store.source_file_store import FileRecord, PublishedFile, SourceFileStore

BATCH_FILES = 200
FAILED_RETRY_S = 30.0
"""Seconds until a file is tried again that raised an error nobody foresaw: it may have been ours,
and pass.
"""

_MAX_LOGGED = 1_000

logger = logging.getLogger(__name__)


class FilePublisher:
    """One batch at a time, so that two looks at a path never overtake each other.

    Attributes:
        problems: files that could not be published, with what is wrong; they are tried again after
            a while, and at each scan.
    """

    def __init__(self, folder: Folder, ledger: SourceFileStore, intake: Ingester) -> None:
        self._folder = folder
        self._ledger = ledger
        self._intake = intake
        self._turn = asyncio.Lock()
        self._told: set[tuple[bytes, str]] = set()
        self.problems: dict[bytes, str] = {}

    async def update(
        self, requests: Sequence[PathCheck], expected: FolderIdentity | None = None
    ) -> list[PathFinding]:
        """Bring paths up to date.

        Args:
            requests: each path once.
            expected: the folder as it was when watching began; None takes whichever is there.

        Returns:
            What was found, in the order of the requests, without contents; `wait` was not
            published.

        Raises:
            FolderUnavailableError: the folder is not there, or is another one.
            RetryableError: the broker or the database is away; some may have been published.
        """
        found: list[PathFinding] = []
        while len(found) < len(requests):
            found += await self._isolated(requests[len(found) : len(found) + BATCH_FILES], expected)
        return found

    async def _isolated(
        self, requests: Sequence[PathCheck], expected: FolderIdentity | None
    ) -> list[PathFinding]:
        """The findings of the first of these requests; a file that raises an error nobody foresaw
        stops none of the others.

        Raises:
            FolderUnavailableError: the folder is not there, or is another one.
            RetryableError: a change could not be published; nothing is lost.
        """
        try:
            return await self._batch(requests, expected)
        except (RetryableError, FolderUnavailableError):
            raise
        except Exception as exc:
            if len(requests) > 1:
                return await self._isolated(requests[: len(requests) // 2], expected)
            path = requests[0].path
            logger.debug("source %s: %a", self._folder.source.name, path, exc_info=exc)
            self._fail(
                path,
                "it cannot be published "
                f"({exc.strerror if isinstance(exc, OSError) else type(exc).__name__}); LIVED"
                "EX_LOG_LEVEL=debug shows where",
            )
            return [
                PathFinding(
                    path, "none", "hidden", wait_s=FAILED_RETRY_S, error=self.problems[path]
                )
            ]

    async def _batch(
        self, requests: Sequence[PathCheck], expected: FolderIdentity | None
    ) -> list[PathFinding]:
        async with self._turn:
            known = await self._ledger.known(
                [(request.path, self._folder.document_id(request.path)) for request in requests]
            )
            findings = await asyncio.to_thread(
                detect_changes, self._folder, expected, requests, known
            )
            await self._publish(findings, known)
        for finding in findings:
            if finding.action == "unnameable":
                self._tell_once(finding.path, "its path is too long for an id: shorten it")
            elif finding.action == "delete" and finding.kind == "file":
                self._tell_once(
                    finding.path,
                    "its document is deleted, since the settings leave the file out"
                    + _how_to_keep(finding.path),
                )
        return [finding.without_content() for finding in findings]

    async def _publish(
        self, findings: Sequence[PathFinding], known: dict[bytes, PublishedFile]
    ) -> None:
        now = time.time_ns()
        versions: dict[bytes, int] = {}
        changes: list[tuple[bytes, Change]] = []
        for finding in findings:
            self.problems.pop(finding.path, None)
            before = known[finding.path]
            versions[finding.path] = (
                _version(finding, before.newest, now) if finding.has_change else before.newest
            )
            if versions[finding.path] >= VERSION_LIMIT:
                self._fail(
                    finding.path,
                    "its document has the greatest version there is, so nothing can be "
                    "newer: delete the document, or rename the file",
                )
            elif finding.has_change:
                changes += self._changes(finding, before, versions[finding.path], now)
        refused = await self._accept(changes) | set(self.problems)
        await self._ledger.record(
            [
                FileRecord(
                    f.path,
                    self._folder.document_id(f.path),
                    f.fingerprint,
                    f.sha256,
                    versions[f.path],
                    present=f.action != "delete",
                )
                for f in findings
                if (f.has_change or f.action == "record") and f.path not in refused
            ]
        )

    async def _accept(self, changes: list[tuple[bytes, Change]]) -> set[bytes]:
        """Publish; the paths of those that can never be."""
        if not changes:
            return set()
        try:
            await self._intake.accept([change for _, change in changes])
        except RejectedError as exc:
            if len(changes) == 1:
                path = changes[0][0]
                self._fail(path, f"it cannot be published: {exc}")
                return {path}
            half = len(changes) // 2
            return await self._accept(changes[:half]) | await self._accept(changes[half:])
        return set()

    def _changes(
        self, finding: PathFinding, known: PublishedFile, version: int, now: int
    ) -> list[tuple[bytes, Change]]:
        """The change of a document; with the end of the one that stood for the file before its
        source was renamed.
        """
        changes = [self._change(finding, version)]
        if known.before is not None:
            document_id, newest = known.before
            changes.append(
                (
                    finding.path,
                    Change(
                        self._folder.deleted_document_event(
                            document_id, min(max(now, newest + 1), VERSION_LIMIT - 1)
                        )
                    ),
                )
            )
        return changes

    def _change(self, finding: PathFinding, version: int) -> tuple[bytes, Change]:
        if finding.action == "delete" or finding.stat is None:
            return finding.path, Change(self._folder.deleted(finding.path, version))
        size = finding.stat.st_size if finding.content is None and finding.error is None else 0
        data = self._folder.changed(
            finding.path, version, found=finding.stat, unreadable=finding.error, size_bytes=size
        )
        return finding.path, Change(data, finding.content)

    def _fail(self, path: bytes, what: str) -> None:
        self.problems[path] = what
        self._tell_once(path, what)

    def _tell_once(self, path: bytes, what: str) -> None:
        if (path, what) not in self._told and len(self._told) < _MAX_LOGGED:
            self._told.add((path, what))
            logger.warning("source %s: %a: %s", self._folder.source.name, path, what)


def _version(finding: PathFinding, newest: int, now: int) -> int:
    """A version above the newest one; a delete wins over content of an equal version, so it has
    always one.
    """
    version = max(now, newest + 1)
    return min(version, VERSION_LIMIT - 1) if finding.action == "delete" else version


def _how_to_keep(path: bytes) -> str:
    text = path_to_text(path)
    return (
        f": its name looks like credentials; include = [..., {text!r}] keeps it"
        if is_credential_file(text)
        else ""
    )
