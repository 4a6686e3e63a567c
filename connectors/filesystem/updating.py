"""Bringing documents up to date with their files: look, publish what differs, then record it.

Versions are the wall clock in nanoseconds at the look, and always above the last version of the document, tombstones included: the times of
files go back with every restore. What was published and not recorded, after a crash, is published once more, which does no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from connectors.filesystem.disk import Identity
from connectors.filesystem.examine import Finding, Request, examine_all
from connectors.filesystem.folder import Folder
from pipeline.errors import RejectedError
from pipeline.intake import Change, Intake
from pipeline.store.source_files import FileRecord, KnownFile, SourceFiles

BATCH_FILES = 200

logger = logging.getLogger(__name__)


class Updating:
    """One batch at a time, so that two looks at a path never overtake each other."""

    def __init__(self, folder: Folder, ledger: SourceFiles, intake: Intake) -> None:
        self._folder = folder
        self._ledger = ledger
        self._intake = intake
        self._turn = asyncio.Lock()
        self._told: set[bytes] = set()

    async def update(self, requests: Sequence[Request], expected: Identity | None = None) -> list[Finding]:
        """Bring paths up to date.

        Args:
            requests: each path once.
            expected: the folder as it was when watching began; None takes whichever is there.

        Returns:
            What was found, in the order of the requests, without contents; `wait` was not published.

        Raises:
            RootGoneError: the folder is not there, or is another one.
            RetryableError: the broker or the database is away; some may have been published.
        """
        found: list[Finding] = []
        while len(found) < len(requests):
            found += await self._batch(requests[len(found) : len(found) + BATCH_FILES], expected)
        return found

    async def _batch(self, requests: Sequence[Request], expected: Identity | None) -> list[Finding]:
        async with self._turn:
            known = await self._ledger.known([(request.path, self._folder.document_id(request.path)) for request in requests])
            findings = await asyncio.to_thread(examine_all, self._folder, expected, requests, known)
            await self._publish(findings, known)
        for finding in findings:
            if finding.action == "unnameable":
                self._tell_once(finding.path, "its path is too long for an id: shorten it")
        return [finding.without_content() for finding in findings]

    async def _publish(self, findings: Sequence[Finding], known: dict[bytes, KnownFile]) -> None:
        now = time.time_ns()
        versions = {f.path: max(now, known[f.path].newest + 1) if f.is_new else known[f.path].newest for f in findings}
        refused = await self._accept([self._change(f, versions[f.path]) for f in findings if f.is_new])
        await self._ledger.record([
            FileRecord(f.path, self._folder.document_id(f.path), f.fingerprint, f.sha256, versions[f.path], present=f.action != "delete")
            for f in findings
            if (f.is_new or f.action == "record") and f.path not in refused
        ])  # fmt: skip

    async def _accept(self, changes: list[tuple[bytes, Change]]) -> set[bytes]:
        """Publish; the paths of those that can never be."""
        if not changes:
            return set()
        try:
            await self._intake.accept([change for _, change in changes])
        except RejectedError as exc:
            if len(changes) == 1:
                path = changes[0][0]
                self._tell_once(path, f"it cannot be published: {exc}")
                return {path}
            half = len(changes) // 2
            return await self._accept(changes[:half]) | await self._accept(changes[half:])
        return set()

    def _change(self, finding: Finding, version: int) -> tuple[bytes, Change]:
        if finding.action == "delete" or finding.stat is None:
            return finding.path, Change(self._folder.deleted(finding.path, version))
        size = finding.stat.st_size if finding.content is None and finding.error is None else 0
        data = self._folder.changed(finding.path, version, found=finding.stat, unreadable=finding.error, size_bytes=size)
        return finding.path, Change(data, finding.content)

    def _tell_once(self, path: bytes, what: str) -> None:
        if path not in self._told:
            self._told.add(path)
            logger.warning("source %s: %a: %s", self._folder.source.name, path, what)
