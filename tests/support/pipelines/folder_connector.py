"""A folder connector on a real folder and a real ledger, with an intake that keeps what was
published.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from livedex.connectors.filesystem import FolderConnector, FolderOptions
from livedex.connectors.filesystem.scan_report import ScanReport
from livedex.pipeline.errors import OutageError
from livedex.pipeline.ingest.ingester import Change, Ingester
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.source_file_store import SourceFileStore

READABLE = (".md", ".txt")


def is_readable(name: str) -> bool:
    """Stands in for the real list of formats."""
    return name.lower().endswith(READABLE)


class RecordingIntake(Ingester):
    """Keeps every change, and what the last one of each document makes of it."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.now: dict[str, bytes] = {}
        self.outages = 0

    async def accept(self, changes: Sequence[Change]) -> None:
        if self.outages:
            self.outages -= 1
            raise OutageError("broker", "away")
        for change in changes:
            data = change.data
            before = [
                c.data.version for c in self.changes if c.data.document_id == data.document_id
            ]
            assert all(version < data.version for version in before), (
                f"{data.document_id}: version {data.version} after {before}"
            )
            self.changes.append(change)
            if data.deleted:
                self.now.pop(data.document_id, None)
            elif data.unreadable is None:
                self.now[data.document_id] = (
                    b"too large" if change.content is None else change.content
                )

    def versions(self, document_id: str) -> list[bytes | None]:
        """What was published of a document, in order; None for a delete."""
        return [
            None if c.data.deleted else c.content
            for c in self.changes
            if c.data.document_id == document_id
        ]

    async def until(
        self, condition: Callable[[dict[str, bytes]], bool], timeout_s: float = 20
    ) -> None:
        """Wait until what was published is so."""
        end = time.monotonic() + timeout_s
        while not condition(self.now):
            assert time.monotonic() < end, f"published is {self.now}"
            await asyncio.sleep(0.005)


class FolderHarness:
    """Makes connectors on one folder, one after the other or side by side, that share a ledger and
    an intake.
    """

    def __init__(self, database: Database, root: Path) -> None:
        self.root = root
        self.intake = RecordingIntake()
        self.database = database
        self.health: list[tuple[str, str | None]] = []

    def connector(self, *, source: dict[str, Any] | None = None, **options: Any) -> FolderConnector:
        """A connector that does not run."""
        made = FolderSource(**{"name": "docs", "path": self.root, **(source or {})})

        async def on_health(state: str, detail: str | None) -> None:
            self.health.append((state, detail))

        return FolderConnector(
            made,
            ledger=SourceFileStore(self.database, TenantId(made.tenant), made.name),
            intake=self.intake,
            readable=is_readable,
            options=FolderOptions(**options),
            on_health=on_health,
        )

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[FolderConnector]:
        """A connector that runs and has done its first scan."""
        connector = self.connector(**options)
        stop = asyncio.Event()
        task = asyncio.create_task(connector.run(stop))
        try:
            ready = asyncio.create_task(connector.ready.wait())
            await asyncio.wait({ready, task}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            assert ready.done(), task
            yield connector
        finally:
            stop.set()
            await asyncio.wait_for(task, 10)

    def write(self, name: str, text: str | bytes) -> Path:
        """Write as an editor does: a temporary file, then a rename."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name[:200]}.tmp~"
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
        temporary.replace(path)
        return path

    async def until_health(self, state: str, detail: str | None, timeout_s: float = 20) -> None:
        """Wait until the source says this of itself; `detail` is a part of what it says."""
        end = time.monotonic() + timeout_s
        while (
            not self.health
            or self.health[-1][0] != state
            or (detail or "None") not in str(self.health[-1][1])
        ):
            assert time.monotonic() < end, self.health
            await asyncio.sleep(0.005)

    def on_disk(self) -> dict[str, bytes]:
        """What the folder holds, as documents should have it; for names in UTF-8."""
        found = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                path = Path(folder) / name
                if (
                    is_readable(name)
                    and not name.startswith(".")
                    and path.is_file()
                    and not path.is_symlink()
                ):
                    found[f"docs/{path.relative_to(self.root)}"] = path.read_bytes()
        return found


async def scan_once(
    folders: FolderHarness, connector: FolderConnector | None = None, **how: bool
) -> ScanReport:
    """Scan once with a connector that does not run, when the files are old enough."""
    await asyncio.sleep(0.03)
    return await (connector or folders.connector()).reconcile(**how)


def counts(report: ScanReport) -> tuple[int, int, int, int]:
    """Added, changed, deleted, unchanged."""
    return report.added, report.changed, report.deleted, report.unchanged


async def wait_processed(folders: FolderHarness) -> None:
    """Until a file written last is published, and what came before has had its turn."""
    path = folders.write(f"last-{time.time_ns()}.md", "last")
    await folders.intake.until(lambda now: f"docs/{path.name}" in now)
    await asyncio.sleep(0.3)
