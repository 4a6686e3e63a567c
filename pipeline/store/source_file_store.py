"""The ledger of a folder: what was last published of each of its files, so that a scan can tell
what has changed without reading.

A row is written after its event was published, so a crash in between publishes once more and loses
nothing. Rows of deleted files stay, for the version that a file of the same name must exceed.
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
"""Greater than every path: no name is as long."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """What is known of one path.

    Attributes:
        fingerprint, sha256: of what was last published; None where nothing was or its delete was.
        newest: the newest version of its document anywhere, deletes included; -1 where there is
            none.
        exists: whether a document of it may be there, so that its end must be published.
        withheld: its delete waits for a confirmation.
        before: the id that its document had before its source was renamed, with the newest version
            of that; None where it is called as it should be.
    """

    fingerprint: str | None = None
    sha256: bytes | None = None
    newest: int = -1
    exists: bool = False
    withheld: bool = False
    before: tuple[DocumentId, int] | None = None


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file whose document should be there.

    Attributes:
        outdated: its document is cut in another way, or has vectors of another generation.
        missing: the index knows nothing as new as what was published (under way, dropped, or lost),
            or others wrote or deleted the document since.
    """

    path: bytes
    fingerprint: str
    sha256: bytes | None
    outdated: bool
    missing: bool


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What was published of a file.

    Attributes:
        fingerprint: opaque here; '' for a delete.
        sha256: of the content; None where none was read.
        version: of the event, or the one before when nothing had to be published.
    """

    path: bytes
    document_id: DocumentId
    fingerprint: str
    sha256: bytes | None
    version: int
    present: bool = True


class SourceFileStore:
    """The ledger of one source of one tenant.

    Every call may raise `OutageError` or `RetryableError`.
    """

    def __init__(self, database: Database, tenant_id: TenantId, source: str) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._source = source
        self.withheld = SourceState(database, tenant_id, source)

    async def known(self, files: Sequence[tuple[bytes, DocumentId]]) -> dict[bytes, PublishedFile]:
        """What is known of these paths; every one of them is in the answer."""
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
        """The files whose documents should be there, by path as bytes.

        Args:
            after, before: bounds, both exclusive.
            cut: how texts are cut now; '' does not look.
            generation: that vectors are made for now; None does not look.
        """
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: list files"
        ) as connection:
            rows = await connection.fetch(
                sql("files_between"), self._tenant_id, self._source, after, before, cut, generation
            )
        return [ListedFile(**row) for row in rows]

    async def list_below(self, folders: Sequence[bytes]) -> list[bytes]:
        """The paths of files below these folders: `d/` and on, so not `d1/x` for `d`."""
        if not folders:
            return []
        # 0 comes after / in ASCII
        low, high = [folder + b"/" for folder in folders], [folder + b"0" for folder in folders]
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: list folders"
        ) as connection:
            rows = await connection.fetch(
                sql("files_below"), self._tenant_id, self._source, low, high
            )
        return [row["path"] for row in rows]

    async def ending(self, tails: Sequence[str]) -> list[bytes]:
        """The paths of files whose fingerprint ends with one of these. Looks at every file of the
        source.

        Args:
            tails: two words each, apart by a space.
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
        """Keep what was published."""
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
        """Documents of the source that no file of the ledger stands for.

        Args:
            lost: also those whose delete was published and has come to nothing; true only while
                nothing is under way.
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
