"""The folders that are or were watched, over all watchers, and the deletes of their documents that
wait for a confirmation.

A watcher names its sources at its start and every minute. One that it no longer names is orphaned:
its documents stay until somebody removes it, for a missing setting is no evidence that a file is
gone. A watcher only ever leaves sources that it named itself, and a source that any watcher names
is not orphaned, so watchers on several machines with different settings do not orphan each other's.
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
    """A folder as the last scan found it.

    Attributes:
        identity: device and inode; None: it was never scanned.
        mounts: mount points below it, relative, each with the identity of what was mounted there.
    """

    path: str = ""
    identity: tuple[int, int] | None = None
    mounts: Mapping[bytes, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source as an operator sees it.

    Attributes:
        is_folder: watched once; false: its documents were sent under this name.
        withheld: deletes that wait for a confirmation.
        orphaned: its watcher started without it.
        left_out: files that are no documents, see `livedex.connectors.filesystem.skipped_files`.
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
        """Whether no watcher has named it for a day, though none has left it."""
        return (
            self.reported_at is not None
            and not self.orphaned
            and datetime.now(UTC) - self.reported_at > UNWATCHED_AFTER
        )


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of a source; `newest` is its newest known version, visible or not."""

    document_id: DocumentId
    newest: int
    collection: str


class SourceState:
    """The deletes of one source that wait for a confirmation.

    Every call may raise `OutageError` or `RetryableError`.
    """

    def __init__(self, database: Database, tenant_id: TenantId, source: str) -> None:
        self._database = database
        self._tenant_id = tenant_id
        self._source = source

    async def withhold_deletes(self, paths: Sequence[bytes], reason: WithholdReason) -> None:
        """Keep that the documents of these files stay, until `confirm` or until the files are
        there again.
        """
        await self._execute("withhold_deletes", paths, reason)

    async def release(self, paths: Sequence[bytes]) -> None:
        """Forget that these deletes were withheld: their files are there."""
        await self._execute("release_deletes", paths)

    async def confirm_deletes(self) -> None:
        """Let the next scan carry out every delete that is withheld now."""
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: confirm deletes"
        ) as connection:
            await connection.execute(sql("confirm_deletes"), self._tenant_id, self._source)

    async def paths(self) -> dict[bytes, bool]:
        """The files whose deletes were withheld, each with whether that it goes was confirmed
        since.
        """
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
        """The folder as the last scan found it."""
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
        """Keep what a scan has found of the folder."""
        device, inode = state.identity or ("", "")
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: keep its folder"
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
        """Keep the mount points, before files below them are published."""
        async with self._database.tenant(
            self._tenant_id, f"{self._source}: keep mount points"
        ) as connection:
            await connection.execute(
                sql("keep_mounts"), self._tenant_id, self._source, state.path, _mounts(state)
            )


class SourceStore:
    """The sources of the whole installation.

    Every call may raise `OutageError` or `RetryableError`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[SourceView]:
        """Every source by tenant and name."""
        found: list[SourceView] = []
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "list sources") as connection:
                rows = await connection.fetch(sql("list_sources"), tenant_id)
            found += [_view(tenant_id, row) for row in rows]
        return found

    async def find(self, name: str, tenant: str | None = None) -> list[SourceView]:
        """The sources of this name, one a tenant at most.

        Args:
            tenant: only of this one; None: of all.

        Raises:
            NotFoundError: there is none.
        """
        found = [
            source
            for source in await self.all()
            if source.name == name and tenant in (None, source.tenant_id)
        ]
        if not found:
            raise NotFoundError(
                f"there is no source {name}: `livedex sources list` shows what there is"
            )
        return found

    async def report_watched(
        self, watched: Mapping[TenantId, Mapping[str, str]], watcher: str
    ) -> None:
        """Name the sources that a watcher watches, so that they are not orphaned.

        Args:
            watched: by tenant, names with the paths of their folders.
        """
        for tenant_id, paths in watched.items():
            async with self._database.tenant(tenant_id, "report sources") as connection:
                await connection.execute(
                    sql("report_sources"), tenant_id, list(paths), list(paths.values()), watcher
                )

    async def leave(
        self, watched: Mapping[TenantId, Mapping[str, str]], watcher: str, *, alone: bool
    ) -> None:
        """Note which sources a watcher no longer names.

        Args:
            alone: there is no other watcher, so whatever is not named here is named nowhere.
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
        """Documents of a source that are there or on their way, in the order of their ids.

        Args:
            above: only ids above this one; empty for all.
            limit: documents at most, >= 1.
        """
        async with self._database.tenant(tenant_id, "read a source's documents") as connection:
            rows = await connection.fetch(sql("source_documents"), tenant_id, name, above, limit)
        return [
            SourceDocument(DocumentId(row["document_id"]), row["newest"], row["collection"])
            for row in rows
        ]

    async def forget(self, tenant_id: TenantId, name: str) -> None:
        """Remove what is kept of a source, its documents apart."""
        async with self._database.tenant(tenant_id, f"forget source {name}") as connection:
            await connection.execute(sql("forget_source"), tenant_id, name)

    async def rename(self, tenant_id: TenantId, old: str, new: str) -> None:
        """Give a source another name; the next scan under it gives its documents their new ids, and
        embeds nothing.

        Raises:
            ConflictError: a source of the new name has files already.
        """
        async with self._database.tenant(tenant_id, f"rename source {old}") as connection:
            if await connection.fetchval(sql("count_present_files"), tenant_id, new):
                raise ConflictError(
                    f"there are files of a source {new} already: choose another name, or run "
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
