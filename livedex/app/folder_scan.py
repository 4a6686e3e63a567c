"""The watched folders as the commands see them: what a scan of one would find, and the documents
cut as the chunk stage cuts them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.comparison import (
    DocumentDifference,
    FolderComparison,
    compare_folder,
)
from livedex.connectors.filesystem.document_ids import is_too_long, path_to_text
from livedex.connectors.filesystem.folder import Folder, open_source_folder
from livedex.connectors.filesystem.folder_scanner import DirectoryWalk, FolderScanner
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.extract import is_supported_file
from livedex.pipeline.model import GenerationId, TenantId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.stages.document_chunker import ChunkedDocument, ChunkerConfig, ThreadChunker
from livedex.pipeline.stages.process_pool import ProcessChunker
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.source_file_store import SourceFileStore

NO_GENERATION = GenerationId(0)
"""Numbers begin at 1: every document that has vectors has those of another generation."""


def open_folder(source: FolderSource, settings: Settings, data: Path) -> Folder:
    """The folder of a source as the watcher sees it, without anything of it being published."""
    return open_source_folder(
        source, readable=is_supported_file, ignored=(data,), max_bytes=settings.max_document_bytes
    )


async def scan_for_differences(
    folder: Folder,
    database: Database,
    cutting: ChunkerConfig,
    *,
    generation: GenerationId | None = None,
    index: bool = False,
) -> FolderComparison:
    """What a scan would publish of a folder.

    Args:
        folder: that is compared.
        database: as the application role.
        cutting: how texts are cut.
        generation: name documents with vectors of another generation too, `NO_GENERATION` where the
            configured model was never used; a scan
            leaves them to the embed stage, as None does.
        index: also what the index has lost; true only while nothing is under way.

    Raises:
        OutageError: the folder or the database is away.
    """
    ledger = SourceFileStore(database, TenantId(folder.source.tenant), folder.source.name)
    return await compare_folder(FolderScanner(folder, ledger, cutting.id, generation), index=index)


async def list_new_files(folder: Folder) -> FolderComparison:
    """What the first scan would publish: every file.

    Raises:
        ConfigError: the folder cannot be opened.
    """

    found = DirectoryWalk(folder)

    def walk() -> list[bytes]:
        return [path for path, _ in found.files() if not is_too_long(folder.document_id(path))]

    try:
        paths = await asyncio.to_thread(walk)
    except disk.FolderUnavailableError as exc:
        raise ConfigError(f"{exc}: make it, or name another folder") from exc
    return FolderComparison(
        folder,
        [
            DocumentDifference("added", folder.document_id(path), path, "the file is new")
            for path in paths
        ],
        left_out=found.left_out,
    )


class FileChunker:
    """Reads files of folders and takes them apart as the chunk stage would."""

    def __init__(self, cutting: ChunkerConfig, elsewhere: ProcessChunker) -> None:
        self._cutting = cutting
        self._cutter = ThreadChunker(cutting, elsewhere)

    async def chunk(self, folder: Folder, path: bytes) -> ChunkedDocument | None:
        """The document of a file now.

        Returns:
            None when there is no file any more; a `Cut` of state `unreadable` or `too_large` where
            no content can be had.

        Raises:
            OutageError: the folder is away.
        """
        reading = await asyncio.to_thread(_read, folder, path)
        if reading.error is not None:
            return ChunkedDocument("unreadable", error=os.strerror(reading.error))
        if reading.stat is None:
            return None
        if reading.content is None:
            return ChunkedDocument(
                "too_large",
                error=f"{reading.stat.st_size} bytes are more than LIVEDEX_MAX_DOCUMENT_BYTES"
                f" ({self._cutting.max_bytes}).",
            )
        return await self._cutter.chunk(
            reading.content, name=path_to_text(path.rsplit(b"/", 1)[-1]), mime_type=None
        )


def _read(folder: Folder, path: bytes) -> disk.FileRead:
    with disk.open_folder(folder.root) as root:
        if disk.inspect_path(root, path).kind != "file":
            return disk.FileRead(None)
        return disk.read_file(root, path, max_bytes=folder.max_bytes, even_if_open=True)


@asynccontextmanager
async def open_file_chunker(cutting: ChunkerConfig) -> AsyncIterator[FileChunker]:
    """A cutter; the process for large documents ends with the block."""
    elsewhere = ProcessChunker()
    try:
        yield FileChunker(cutting, elsewhere)
    finally:
        elsewhere.close()
