"""What a reconcile would find, without publishing anything: for `livedex plan` and `livedex
verify`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.document_ids import is_too_long, path_from_document_id
from livedex.connectors.filesystem.fingerprint import CONTENT, PROVISIONAL, Fingerprint
from livedex.connectors.filesystem.folder import Folder
from livedex.connectors.filesystem.folder_scanner import DirectoryWalk, FolderScanner, ScanBatch
from livedex.connectors.filesystem.mount_points import is_below
from livedex.connectors.filesystem.skipped_files import SkippedFiles
from livedex.pipeline.errors import OutageError
from livedex.pipeline.model import DocumentId
from livedex.pipeline.store.source_file_store import ListedFile


@dataclass(frozen=True, slots=True)
class DocumentDifference:
    """A document that is not what its file is.

    Attributes:
        path: of the file, relative, raw bytes.
        before: of a moved document, its id until now.
        detail: what differs, in words.
    """

    kind: Literal["added", "changed", "moved", "deleted"]
    document_id: DocumentId
    path: bytes
    detail: str
    before: DocumentId | None = None


@dataclass
class FolderComparison:
    """A folder against its ledger and the index.

    Attributes:
        differences: by path, a moved document once.
        unchanged: files that are as they were, touched ones included.
        hidden: files known in folders that cannot be listed, or below mount points that are not
            mounted.
        left_out: files that are no documents, see `SkippedFiles`.
    """

    folder: Folder
    differences: list[DocumentDifference] = field(default_factory=list)
    unchanged: int = 0
    hidden: int = 0
    left_out: SkippedFiles = field(default_factory=SkippedFiles)

    async def read(self, difference: DocumentDifference) -> bytes | None:
        """The content of a file that differs; None where there is none to be had (deleted,
        unreadable, too large).
        """
        return (
            None
            if difference.kind == "deleted"
            else await asyncio.to_thread(_read, self.folder, difference.path)
        )


async def compare_folder(scanner: FolderScanner, *, index: bool = False) -> FolderComparison:
    """Compare a folder with what was published of it.

    Args:
        scanner: of the folder.
        index: also name files whose document the index lacks; true only while nothing is under way.

    Raises:
        OutageError: the folder or the database is away.
    """
    folder = scanner.folder
    walk = DirectoryWalk(folder)
    result = FolderComparison(folder, left_out=walk.left_out)
    folder.mounts.known |= (await scanner.ledger.withheld.folder()).mounts
    lost = await asyncio.to_thread(folder.mounts.lost)
    added: list[bytes] = []
    gone: list[ListedFile] = []
    try:
        async for block in scanner.blocks(walk, index=index):
            result.unchanged += block.unchanged
            result.hidden += block.hidden
            gone += block.gone
            added += [
                path
                for path, row in block.differing
                if row is None and not is_too_long(folder.document_id(path))
            ]
            await _compare_known(block, result)
        known = {row.path for row in gone}
        strays = [
            path_from_document_id(folder.source.name, document)
            for document in await scanner.ledger.orphaned_documents(lost=index)
        ]
        gone += [
            ListedFile(path, "", None, False, False)
            for path in strays
            if path is not None and path not in known
        ]
        seen = await asyncio.to_thread(_really_gone, folder, gone)
        gone = [row for row in seen if not is_below(row.path, lost)]
        result.hidden += len(seen) - len(gone)
    except disk.FolderUnavailableError as exc:
        raise OutageError(f"source:{folder.source.name}", str(exc)) from exc
    await asyncio.to_thread(_tell_moves, result, added, gone)
    result.differences.sort(key=lambda difference: difference.path)
    return result


async def _compare_known(block: ScanBatch, result: FolderComparison) -> None:
    folder = result.folder
    for row, reason in block.outdated:
        result.differences.append(
            DocumentDifference("changed", folder.document_id(row.path), row.path, reason)
        )
    for path, listed in block.differing:
        if listed is not None:
            detail = await asyncio.to_thread(_how_it_differs, folder, listed)
            if detail is None:
                result.unchanged += 1
            else:
                result.differences.append(
                    DocumentDifference("changed", folder.document_id(path), path, detail)
                )


def _how_it_differs(folder: Folder, row: ListedFile) -> str | None:
    """None when the file was only touched."""
    before = Fingerprint.parse(row.fingerprint)
    if before.attributes != folder.attributes:
        return "the settings of its source have changed"
    content = _read(folder, row.path)
    if content is None:
        return (
            None
            if before.how not in (CONTENT, PROVISIONAL)
            else "the file can no longer be read, or is too large"
        )
    same = before.how in (CONTENT, PROVISIONAL) and hashlib.sha256(content).digest() == row.sha256
    return None if same else "the file holds something else"


def _tell_moves(
    result: FolderComparison, added: Sequence[bytes], gone: Sequence[ListedFile]
) -> None:
    """Pair files that are new with files that are gone and held the same."""
    folder = result.folder
    left: dict[bytes, list[ListedFile]] = {}
    for row in gone:
        left.setdefault(row.sha256 or b"", []).append(row)
    sizes = {Fingerprint.parse(row.fingerprint).size for row in gone if row.sha256}
    for path in added:
        twin = _twin(folder, path, sizes, left)
        if twin is None:
            result.differences.append(
                DocumentDifference("added", folder.document_id(path), path, "the file is new")
            )
        else:
            before = folder.document_id(twin.path)
            result.differences.append(
                DocumentDifference(
                    "moved", folder.document_id(path), path, f"it was {before}", before
                )
            )
    for lost in (row for rows in left.values() for row in rows):
        result.differences.append(
            DocumentDifference(
                "deleted", folder.document_id(lost.path), lost.path, "the file is gone"
            )
        )


def _twin(
    folder: Folder, path: bytes, sizes: set[int], left: dict[bytes, list[ListedFile]]
) -> ListedFile | None:
    if not sizes:
        return None
    with disk.open_folder(folder.root) as root:
        found = disk.inspect_path(root, path).stat
        if found is None or found.st_size not in sizes:
            return None
        content = disk.read_file(root, path, max_bytes=folder.max_bytes, even_if_open=True).content
    twins = left.get(hashlib.sha256(content).digest()) if content is not None else None
    return twins.pop() if twins else None


def _really_gone(folder: Folder, rows: Sequence[ListedFile]) -> list[ListedFile]:
    if not rows:
        return []
    with disk.open_folder(folder.root) as root:
        seen = [(row, disk.inspect_path(root, row.path)) for row in rows]
    return [
        row
        for row, at in seen
        if at.kind != "hidden" and not (at.kind == "file" and folder.matcher.selects(row.path))
    ]


def _read(folder: Folder, path: bytes) -> bytes | None:
    with disk.open_folder(folder.root) as root:
        return disk.read_file(root, path, max_bytes=folder.max_bytes, even_if_open=True).content
