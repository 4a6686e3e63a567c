"""Sources (watched folders) over all watchers, and deletes that wait for confirmation.

A watcher reports its sources at its start and every minute. A source that its watcher no longer
reports is orphaned. Its documents stay until an operator removes the source, because a missing
setting is no evidence that a file was deleted. A watcher only leaves sources that it reported
itself, and a source that any watcher reports is not orphaned. So watchers on several machines with
different settings do not orphan each other's sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import orjson

from livedex.pipeline.errors import ConflictError, NotFoundError
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

UNWATCHED_AFTER = timedelta(days=1)

WithholdReason = Literal["many", "mount"]


@dataclass(frozen=True, slots=True)
class FolderState:
    """A folder at the last scan.

    Attributes:
        path: absolute.
        identity: device and inode; None: it was never scanned.
        mounts: relative mount points below it, each with device and inode of the mounted folder.
    """

    path: str = ""
    identity: tuple[int, int] | None = None
    mounts: Mapping[bytes, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source as operators see it.

    Attributes:
        tenant_id: owner of the source.
        name: of the source.
        is_folder: whether a watcher ever watched it; False: documents were sent under this name.
        path: of the folder.
        identity: device and inode at the last scan; None: never scanned.
        scanned_at: end of the last scan, aware.
        reported_at: last report of its watcher, aware.
        documents: number of visible documents.
        withheld: deletes that wait for confirmation.
        orphaned: its watcher started without it.
        left_out: skipped files, see `livedex.connectors.filesystem.skipped_files`.
    """

    tenant_id: TenantId
    name: str
    is_folder: bool
    path: str
    identity: tuple[int, int] | None
    scanned_at: datetime | None
    reported_at: datetime | None
    documents: int
    withheld: int
    orphaned: bool
    left_out: Mapping[str, Any]

    @property
    def is_unwatched(self) -> bool:
        """Return whether no watcher has reported it for a day, although none has left it."""
        return (
            self.reported_at is not None
            and not self.orphaned
            and datetime.now(UTC) - self.reported_at > UNWATCHED_AFTER
        )


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of a source.

    Attributes:
        document_id: of the document.
        newest: its newest stored version, visible or not.
        collection: of the document.
    """

    document_id: DocumentId
    newest: int
    collection: str


class SourceState:
    """The folder of one source, and its deletes that wait for confirmation.

    Every method may raise `OutageError` or `RetryableError`.
    """

    def __init__(self, database: Database, tenant_id: TenantId, source: str) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._source = source

    async def withhold_deletes(self, paths: Sequence[bytes], reason: WithholdReason) -> None:
        """Withhold the deletes of files until `confirm_deletes`, or until the files reappear.

        Args:
            paths: relative to the folder.
            reason: `many` (too many deletes at once) or `mount` (a file system is not mounted).
        """
        await self._execute("withhold_deletes", paths, reason)

    async def release(self, paths: Sequence[bytes]) -> None:
        """Cancel withheld deletes whose files reappeared."""
        await self._execute("release_deletes", paths)

    async def confirm_deletes(self) -> None:
        """Confirm all withheld deletes; the next scan carries them out."""
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: confirm deletes"
        ) as connection:
            await connection.execute(sql("confirm_deletes"), self._tenant_id, self._source)

    async def paths(self) -> dict[bytes, bool]:
        """Return the files with withheld deletes, each with whether its delete is confirmed."""
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: list withheld deletes"
        ) as connection:
            return {
                row["path"]: row["confirmed"]
                for row in await connection.fetch(
                    sql("withheld_paths"), self._tenant_id, self._source
                )
            }

    async def _execute(self, statement: str, paths: Sequence[bytes], *others: str) -> None:
        if paths:
            async with self._database.tenant(
                self._tenant_id, f"{self._source}: {len(paths)} deletes"
            ) as connection:
                await connection.execute(
                    sql(statement), self._tenant_id, self._source, list(paths), *others
                )

    async def folder(self) -> FolderState:
        """Return the folder at the last scan."""
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: read its folder"
        ) as connection:
            row = await connection.fetchrow(sql("read_source"), self._tenant_id, self._source)
        if row is None:
            return FolderState()
        mounts = {
            bytes.fromhex(path): _identity(*identity.split(":"))
            for path, identity in _object(row["mounts"]).items()
        }
        return FolderState(
            row["path"],
            _identity(row["device"], row["inode"]),
            {path: found for path, found in mounts.items() if found},
        )

    async def save_folder(self, state: FolderState, left_out: Mapping[str, Any]) -> None:
        """Store the result of a scan.

        Args:
            state: of the folder.
            left_out: skipped files.
        """
        device, inode = state.identity or ("", "")
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: store its folder"
        ) as connection:
            await connection.execute(
                sql("keep_source"),
                self._tenant_id,
                self._source,
                state.path,
                str(device),
                str(inode),
                _mounts(state),
                left_out,
            )

    async def save_mounts(self, state: FolderState) -> None:
        """Store the mount points; called before files below them are published."""
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: store mount points"
        ) as connection:
            await connection.execute(
                sql("keep_mounts"), self._tenant_id, self._source, state.path, _mounts(state)
            )


class SourceStore:
    """The sources of the whole installation.

    Every method may raise `OutageError` or `RetryableError`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[SourceView]:
        """Return all sources by tenant and name."""
        found: list[SourceView] = []
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "list sources") as connection:
                rows = await connection.fetch(sql("list_sources"), tenant_id)
            found += [_view(tenant_id, row) for row in rows]
        return found

    async def find(self, name: str, tenant: str | None = None) -> list[SourceView]:
        """Return the sources of this name, at most one per tenant.

        Args:
            name: of the source.
            tenant: limits the search to this tenant; None: all tenants.

        Raises:
            NotFoundError: no source has this name.
        """
        found = [
            source
            for source in await self.all()
            if source.name == name and tenant in (None, source.tenant_id)
        ]
        if not found:
            raise NotFoundError(
                f"source {name} not found: `livedex sources list` shows all sources"
            )
        return found

    async def report_watched(
        self, watched: Mapping[TenantId, Mapping[str, str]], watcher: str
    ) -> None:
        """Record which sources a watcher watches, so that they are not orphaned.

        Args:
            watched: by tenant, the names of sources with the paths of their folders.
            watcher: id of the watcher.
        """
        for tenant_id, paths in watched.items():
            async with self._database.tenant(tenant_id, "report sources") as connection:
                await connection.execute(
                    sql("report_sources"), tenant_id, list(paths), list(paths.values()), watcher
                )

    async def leave(
        self, watched: Mapping[TenantId, Mapping[str, str]], watcher: str, *, alone: bool
    ) -> None:
        """Mark the sources as orphaned that a watcher reported earlier and no longer watches.

        Args:
            watched: by tenant, the names of sources with the paths of their folders.
            watcher: id of the watcher.
            alone: there is no other watcher, so every source that is not in `watched` is orphaned.
        """
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "leave sources") as connection:
                await connection.execute(sql("meet_sources"), tenant_id)
                await connection.execute(
                    sql("leave_sources"),
                    tenant_id,
                    list(watched.get(tenant_id, {})),
                    watcher,
                    alone,
                )

    async def documents(
        self, tenant_id: TenantId, name: str, above: str, limit: int
    ) -> list[SourceDocument]:
        """Return the visible and pending documents of a source, sorted by id.

        Args:
            tenant_id: owner of the source.
            name: of the source.
            above: lower bound of the ids, exclusive; empty for all.
            limit: maximum number of documents, >= 1.
        """
        async with self._database.tenant(tenant_id, "read a source's documents") as connection:
            rows = await connection.fetch(sql("source_documents"), tenant_id, name, above, limit)
        return [
            SourceDocument(DocumentId(row["document_id"]), row["newest"], row["collection"])
            for row in rows
        ]

    async def forget(self, tenant_id: TenantId, name: str) -> None:
        """Remove the records of a source, but not its documents."""
        async with self._database.tenant(tenant_id, f"remove source {name}") as connection:
            await connection.execute(sql("forget_source"), tenant_id, name)

    async def rename(self, tenant_id: TenantId, old: str, new: str) -> None:
        """Rename a source. The next scan gives its documents their new ids, and embeds nothing.

        Args:
            tenant_id: owner of the source.
            old: present name.
            new: new name.

        Raises:
            ConflictError: a source of the new name has files already.
        """
        async with self._database.tenant(tenant_id, f"rename source {old}") as connection:
            if await connection.fetchval(sql("count_present_files"), tenant_id, new):
                raise ConflictError(
                    f"source {new} has files already: choose another name, or run "
                    f"`livedex sources remove {new}` first"
                )
            await connection.execute(sql("forget_absent_files"), tenant_id, new)
            await connection.execute(sql("rename_source"), tenant_id, old, new)


def _view(tenant_id: TenantId, row: Mapping[str, Any]) -> SourceView:
    return SourceView(
        tenant_id,
        row["name"],
        row["is_folder"],
        row["path"],
        _identity(row["device"], row["inode"]),
        row["scanned_at"],
        row["reported_at"],
        row["documents"],
        row["withheld"],
        bool(row["orphaned"]),
        _object(row["left_out"]),
    )


def _identity(device: str | None, inode: str | None) -> tuple[int, int] | None:
    return (int(device), int(inode)) if device and inode else None


def _mounts(state: FolderState) -> dict[str, str]:
    return {
        path.hex(): f"{device}:{inode}" for path, (device, inode) in sorted(state.mounts.items())
    }


def _object(value: Any) -> Mapping[str, Any]:
    found = orjson.loads(value) if isinstance(value, str | bytes) else value
    return found or {}
