"""Records which state of each watched file was last published, so that a scan detects changes
without reading contents.

A row is written after its event was published: a crash in between publishes the event twice, but
loses nothing. Rows of deleted files stay, because a new file of the same name needs a greater
version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livedex.pipeline.model import DocumentId, GenerationId, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.source_store import SourceState

PATH_UPPER_BOUND = b"\xff" * 256
"""Greater than every path: no file name is this long."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """The published state of one path.

    Attributes:
        fingerprint: of the last published content; None: nothing or a delete was published.
        sha256: of the last published content; None: nothing or a delete was published.
        newest: the newest version of its document anywhere, deletes included; -1: none.
        exists: whether its document may exist, so that a deleted file needs a delete event.
        withheld: its delete waits for confirmation.
        before: the id of its document before its source was renamed, with the newest version under
            that id; None: not renamed.
    """

    fingerprint: str | None = None
    sha256: bytes | None = None
    newest: int = -1
    exists: bool = False
    withheld: bool = False
    before: tuple[DocumentId, int] | None = None


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file whose document should exist.

    Attributes:
        path: relative to the folder.
        fingerprint: of the last published content.
        sha256: of the last published content; None: it was not read.
        outdated: its document was chunked with another configuration, or has vectors of another
            generation.
        missing: the index has no version as new as the published one (pending, dropped or lost), or
            another writer changed or deleted the document since.
    """

    path: bytes
    fingerprint: str
    sha256: bytes | None
    outdated: bool
    missing: bool


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A state of a file to record as published.

    Attributes:
        path: relative to the folder.
        document_id: of its document.
        fingerprint: opaque here; '' for a delete.
        sha256: of the content; None: it was not read.
        version: of the event; the previous one if nothing had to be published.
        present: whether the file exists.
    """

    path: bytes
    document_id: DocumentId
    fingerprint: str
    sha256: bytes | None
    version: int
    present: bool = True


class SourceFileStore:
    """The published files of one source of one tenant.

    Every method may raise `OutageError` or `RetryableError`.
    """

    def __init__(self, database: Database, tenant_id: TenantId, source: str) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._source = source
        self.withheld = SourceState(database, tenant_id, source)

    async def known(self, files: Sequence[tuple[bytes, DocumentId]]) -> dict[bytes, PublishedFile]:
        """Return the published state of each path; unknown paths have an empty state."""
        paths, ids = [path for path, _ in files], [document for _, document in files]
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: look up {len(files)} files"
        ) as connection:
            rows = await connection.fetch(
                sql("known_files"), self._tenant_id, self._source, paths, ids
            )
        return {row["path"]: _published_file(row) for row in rows}

    async def list_between(
        self, after: bytes, before: bytes, *, cut: str, generation: GenerationId | None
    ) -> list[ListedFile]:
        """Return the files whose documents should exist, sorted by path as bytes.

        Args:
            after: lower bound, exclusive.
            before: upper bound, exclusive.
            cut: active chunker configuration; '' skips the comparison.
            generation: active generation; None skips the comparison.
        """
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: list files"
        ) as connection:
            rows = await connection.fetch(
                sql("files_between"), self._tenant_id, self._source, after, before, cut, generation
            )
        return [ListedFile(**row) for row in rows]

    async def list_below(self, folders: Sequence[bytes]) -> list[bytes]:
        """Return the paths of files below folders: `d/x` but not `d1/x` for `d`."""
        if not folders:
            return []
        # in ASCII, 0 follows /
        low, high = [folder + b"/" for folder in folders], [folder + b"0" for folder in folders]
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: list folders"
        ) as connection:
            rows = await connection.fetch(
                sql("files_below"), self._tenant_id, self._source, low, high
            )
        return [row["path"] for row in rows]

    async def ending(self, tails: Sequence[str]) -> list[bytes]:
        """Return the paths of files whose fingerprint ends with one of these. Reads every row of
        the source.

        Args:
            tails: two words each, separated by a space.
        """
        if not tails:
            return []
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: look for {len(tails)} fingerprints"
        ) as connection:
            rows = await connection.fetch(
                sql("files_ending"), self._tenant_id, self._source, list(tails)
            )
        return [row["path"] for row in rows]

    async def record(self, files: Sequence[FileRecord]) -> None:
        """Record what was published."""
        if not files:
            return
        columns = (
            [f.path for f in files],
            [f.document_id for f in files],
            [f.fingerprint for f in files],
            [f.sha256 for f in files],
            [f.version for f in files],
            [f.present for f in files],
        )
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: record {len(files)} files"
        ) as connection:
            await connection.execute(sql("record_files"), self._tenant_id, self._source, *columns)

    async def orphaned_documents(self, *, lost: bool) -> list[DocumentId]:
        """Return the documents of the source that belong to no recorded file.

        Args:
            lost: include documents whose delete was published but had no effect. Only valid while
                no event of the source is pending.
        """
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: list documents"
        ) as connection:
            return [
                DocumentId(row[0])
                for row in await connection.fetch(
                    sql("stray_documents"), self._tenant_id, self._source, lost
                )
            ]


def _published_file(row: Mapping[str, Any]) -> PublishedFile:
    present = row["present"]
    return PublishedFile(
        row["fingerprint"] if present else None,
        row["sha256"] if present else None,
        -1 if row["newest"] is None else row["newest"],
        present or row["visible"],
        row["withheld"],
        None if row["before"] is None else (DocumentId(row["before"]), row["newest_before"]),
    )
