"""Listing a folder in the order of its paths, and merging that with the ledger. Reads no content.

Files come in the order of their paths as bytes, which is the ledger's too, so both are compared
block by block and neither is ever held whole.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import islice

from livedex.connectors.filesystem.fingerprint import CONTENT, TOO_LARGE, Fingerprint
from livedex.connectors.filesystem.folder import Folder
from livedex.connectors.filesystem.safe_file_access import FolderUnavailableError
from livedex.connectors.filesystem.skipped_files import SkippedFiles
from livedex.pipeline.model import GenerationId
from livedex.pipeline.store.source_file_store import PATH_UPPER_BOUND, ListedFile, SourceFileStore

BATCH_FILES = 2_000


@dataclass
class DirectoryWalk:
    """A walk through a folder or a part of it.

    Attributes:
        under: the part, relative; empty for the whole.
        folders: the folders entered so far, the part itself included.
        closed: folders that could not be listed so far, and so are not taken for empty.
        left_out: files that are no documents though somebody may expect them to be.
    """

    folder: Folder
    under: bytes = b""
    folders: list[bytes] = field(default_factory=list)
    closed: list[bytes] = field(default_factory=list)
    left_out: SkippedFiles = field(default_factory=SkippedFiles)

    def files(self) -> Iterator[tuple[bytes, os.stat_result]]:
        """The files that count, in the order of their paths. Blocks.

        Raises:
            FolderUnavailableError: the folder itself cannot be listed.
        """
        stack = [iter(self.entries(self.under))]
        while stack:
            for path, entry in stack[-1]:
                if entry is None:
                    stack.append(iter(self.entries(path)))
                    break
                try:
                    yield path, entry.stat(follow_symlinks=False)
                except OSError:
                    # gone meanwhile, or its folder was closed: whoever looks at the path next will
                    # see
                    continue
            else:
                stack.pop()

    def is_in_unreadable_directory(self, path: bytes) -> bool:
        """Whether a path lies in a folder that could not be listed."""
        return any(path.startswith(folder + b"/") for folder in self.closed)

    def entries(self, path: bytes) -> list[tuple[bytes, os.DirEntry[bytes] | None]]:
        """The documents of a folder, and as None its folders, in the order of the paths below.

        Raises:
            FolderUnavailableError: the folder is not there, or is another one.
        """
        matcher = self.folder.matcher
        found: list[tuple[bytes, bytes, os.DirEntry[bytes] | None]] = []
        prefix = path + b"/" if path else b""
        try:
            with os.scandir(self.folder.root + b"/" + path) as entries:
                for entry in entries:
                    below = prefix + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if matcher.enters_directory(below):
                            found.append((below + b"/", below, None))
                    elif entry.is_file(follow_symlinks=False):
                        if (why := matcher.skip_reason(below)) is None:
                            found.append((below, below, entry))
                        else:
                            self.left_out.add(below, why)
        except (FileNotFoundError, NotADirectoryError) as exc:
            if not path:
                raise FolderUnavailableError(f"{self.folder.shown}: {exc.strerror}") from exc
            return []
        except OSError as exc:
            if not path:
                raise FolderUnavailableError(
                    f"{self.folder.shown} cannot be listed: {exc.strerror}"
                ) from exc
            self.closed.append(path)
            return []
        self.folders.append(path)
        found.sort(key=lambda item: item[0])
        return [(below, entry) for _, below, entry in found]


def list_directories(folder: Folder, under: bytes = b"") -> list[bytes]:
    """Every folder that is entered, without a look at any file's state. Blocks.

    Raises:
        FolderUnavailableError: the folder itself cannot be listed.
    """
    walk = DirectoryWalk(folder, under)
    todo = [under]
    while todo:
        todo += [path for path, entry in walk.entries(todo.pop()) if entry is None]
    return walk.folders + walk.closed


def count_files(folder: Folder) -> int:
    """Return how many files of a folder count as documents, without a look at any file's state.
    Blocks.

    Raises:
        FolderUnavailableError: the folder itself cannot be listed.
    """
    walk, todo, found = DirectoryWalk(folder), [b""], 0
    while todo:
        entries = walk.entries(todo.pop())
        todo += [path for path, entry in entries if entry is None]
        found += sum(entry is not None for _, entry in entries)
    return found


@dataclass(frozen=True, slots=True)
class ScanBatch:
    """A stretch of paths, compared.

    Attributes:
        known: files of the ledger in it.
        unchanged: of them, how many are as they were.
        differing: new or changed files, with what the ledger has of them.
        outdated: unchanged files whose document must be made anew, with the reason.
        gone: files of the ledger that were not found, and not because their folder is closed.
        hidden: files of the ledger in closed folders.
    """

    known: int
    unchanged: int
    differing: list[tuple[bytes, ListedFile | None]]
    outdated: list[tuple[ListedFile, str]]
    gone: list[ListedFile]
    hidden: int


@dataclass(frozen=True, slots=True)
class FolderScanner:
    """Compares a folder with its ledger.

    Attributes:
        cut: how texts are cut now, as in `documents.cut`; '' does not look.
        generation: that vectors are made for now; None does not look.
    """

    folder: Folder
    ledger: SourceFileStore
    cut: str = ""
    generation: GenerationId | None = None

    async def blocks(self, walk: DirectoryWalk, *, index: bool = False) -> AsyncIterator[ScanBatch]:
        """Compare block by block.

        Args:
            walk: what to compare; its `folders` and `closed` are whole in the end.
            index: count a file whose document the index lacks as outdated; true only while nothing
                is under way.

        Raises:
            FolderUnavailableError: the folder itself cannot be listed.
            RetryableError: the database is away.
        """
        files = walk.files()
        low, beyond = (
            (walk.under + b"/", walk.under + b"0") if walk.under else (b"", PATH_UPPER_BOUND)
        )
        while low < beyond:
            found = await asyncio.to_thread(lambda: list(islice(files, BATCH_FILES)))
            high = found[-1][0] + b"\0" if len(found) == BATCH_FILES else beyond
            listed = await self.ledger.list_between(
                low, high, cut=self.cut, generation=self.generation
            )
            yield self._compare(walk, found, {row.path: row for row in listed}, index=index)
            low = high[:-1] if high is not beyond else beyond

    def _compare(
        self,
        walk: DirectoryWalk,
        found: list[tuple[bytes, os.stat_result]],
        rows: dict[bytes, ListedFile],
        *,
        index: bool,
    ) -> ScanBatch:
        known, unchanged, hidden = len(rows), 0, 0
        differing: list[tuple[bytes, ListedFile | None]] = []
        outdated: list[tuple[ListedFile, str]] = []
        for path, stat in found:
            row = rows.pop(path, None)
            how = TOO_LARGE if stat.st_size > self.folder.max_bytes else CONTENT
            if (
                row is None
                or row.fingerprint != Fingerprint.of(how, stat, self.folder.attributes).encode()
            ):
                differing.append((path, row))
            elif row.outdated:
                outdated.append((row, "cut in another way, or for another embedding model"))
            elif index and row.missing:
                outdated.append((row, "the index does not hold what was published"))
            else:
                unchanged += 1
        gone = []
        for row in rows.values():
            if walk.is_in_unreadable_directory(row.path):
                hidden += 1
            else:
                gone.append(row)
        return ScanBatch(known, unchanged, differing, outdated, gone, hidden)
