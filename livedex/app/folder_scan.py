"""The watched folders as the commands see them: what a scan of one would find, and the documents cut as the chunk stage cuts them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.comparison import Comparison, Difference, compare
from livedex.connectors.filesystem.document_ids import is_too_long, readable_path
from livedex.connectors.filesystem.folder import Folder, folder_of
from livedex.connectors.filesystem.folder_scanner import Scanner, Walk
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.extract import is_readable
from livedex.pipeline.model import GenerationId, TenantId
from livedex.pipeline.settings.settings import FolderSource, Settings
from livedex.pipeline.stages.chunk import Cut, Cutting, ThreadCutter
from livedex.pipeline.stages.process_pool import ProcessCutter
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.source_file_store import SourceFiles

NO_GENERATION = GenerationId(0)
"""Numbers begin at 1: every document that has vectors has those of another generation."""


def open_folder(source: FolderSource, settings: Settings, data: Path) -> Folder:
    """The folder of a source as the watcher sees it, without anything of it being published."""
    return folder_of(source, readable=is_readable, ignored=(data,), max_bytes=settings.max_document_bytes)


async def compare_folder(
    folder: Folder, database: Database, cutting: Cutting, *, generation: GenerationId | None = None, index: bool = False
) -> Comparison:
    """What a scan would publish of a folder.

    Args:
        generation: name documents with vectors of another generation too, `NO_GENERATION` where the configured model was never used; a scan
            leaves them to the embed stage, as None does.
        index: also what the index has lost; true only while nothing is under way.

    Raises:
        OutageError: the folder or the database is away.
    """
    ledger = SourceFiles(database, TenantId(folder.source.tenant), folder.source.name)
    return await compare(Scanner(folder, ledger, cutting.id, generation), index=index)


async def compare_with_nothing(folder: Folder) -> Comparison:
    """What the first scan would publish: every file."""

    found = Walk(folder)

    def walk() -> list[bytes]:
        return [path for path, _ in found.files() if not is_too_long(folder.document_id(path))]

    try:
        paths = await asyncio.to_thread(walk)
    except disk.RootGoneError as exc:
        raise ConfigError(f"{exc}: make it, or name another folder") from exc
    return Comparison(
        folder, [Difference("added", folder.document_id(path), path, "the file is new") for path in paths], left_out=found.left_out
    )


class FileCutter:
    """Reads files of folders and takes them apart as the chunk stage would."""

    def __init__(self, cutting: Cutting, elsewhere: ProcessCutter) -> None:
        self._cutting = cutting
        self._cutter = ThreadCutter(cutting, elsewhere)

    async def cut(self, folder: Folder, path: bytes) -> Cut | None:
        """The document of a file now.

        Returns:
            None when there is no file any more; a `Cut` of state `unreadable` or `too_large` where no content can be had.

        Raises:
            OutageError: the folder is away.
        """
        reading = await asyncio.to_thread(_read, folder, path)
        if reading.error is not None:
            return Cut("unreadable", error=os.strerror(reading.error))
        if reading.stat is None:
            return None
        if reading.content is None:
            return Cut(
                "too_large", error=f"{reading.stat.st_size} bytes are more than LIVEDEX_MAX_DOCUMENT_BYTES ({self._cutting.max_bytes})."
            )
        return await self._cutter.cut(reading.content, name=readable_path(path.rsplit(b"/", 1)[-1]), mime_type=None)


def _read(folder: Folder, path: bytes) -> disk.Reading:
    with disk.opened(folder.root) as root:
        if disk.look(root, path).kind != "file":
            return disk.Reading(None)
        return disk.read(root, path, max_bytes=folder.max_bytes, even_if_open=True)


@asynccontextmanager
async def open_cutter(cutting: Cutting) -> AsyncIterator[FileCutter]:
    """A cutter; the process for large documents ends with the block."""
    elsewhere = ProcessCutter()
    try:
        yield FileCutter(cutting, elsewhere)
    finally:
        elsewhere.close()
