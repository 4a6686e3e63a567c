"""Looking at one path of a folder and reading it, without ever leaving the folder or waiting for a
pipe.

Every look starts at the folder itself and goes down name by name without following links, so
nothing that is swapped in meanwhile can lead out of it. Links are no documents, wherever they point
to; the folder itself may be one. All of this blocks: call it in a thread.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

if sys.platform != "win32":
    import fcntl

FolderIdentity: TypeAlias = tuple[int, int]
"""Device and inode of the folder: another one means that the folder was replaced, mounted or
unmounted.
"""

Kind = Literal["file", "folder", "other", "absent", "hidden"]

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_OPEN_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE_BYTES = 1 << 20
_REST_BYTES = 1 << 16
_F_SETSIG = 10  # Linux; not among fcntl's names in Python 3.11


class FolderUnavailableError(Exception):
    """The folder itself is missing, cannot be entered, or is another one: nothing can be said
    about what is in it.
    """


@dataclass(frozen=True, slots=True)
class PathStatus:
    """What stands at a path.

    Attributes:
        kind: `other` is a link, a pipe, a socket or a device; `hidden` means that it cannot be said
            (permission, I/O), and not that it
            is absent.
        stat: of a file; None otherwise.
    """

    kind: Kind
    stat: os.stat_result | None = None


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file as it was read.

    Attributes:
        stat: after reading.
        content: None where it is larger than allowed or was not read, or `error` stands.
        whole: nobody changed it during the reading.
        writing: whether somebody has it open for writing; None where the system does not tell.
        error: number of the system's error.
    """

    stat: os.stat_result | None
    content: bytes | None = None
    whole: bool = True
    is_open_for_writing: bool | None = None
    error: int | None = None


def folder_identity(root: bytes) -> FolderIdentity:
    """Which folder it is.

    Raises:
        FolderUnavailableError: it is not there; the message says why.
    """
    try:
        found = os.stat(root)
    except OSError as exc:
        raise FolderUnavailableError(f"{os.fsdecode(root)!r}: {exc.strerror}") from exc
    if not stat.S_ISDIR(found.st_mode):
        raise FolderUnavailableError(f"{os.fsdecode(root)!r} is no folder")
    return found.st_dev, found.st_ino


@contextmanager
def open_folder(root: bytes, expected: FolderIdentity | None = None) -> Iterator[int]:
    """A descriptor of the folder, for `look` and `read`; held for a moment only, so that nothing
    keeps it from being unmounted.

    Raises:
        FolderUnavailableError: it is not there, or not the one expected.
    """
    try:
        descriptor = os.open(root, _OPEN_DIRECTORY)
    except OSError as exc:
        raise FolderUnavailableError(f"{os.fsdecode(root)!r}: {exc.strerror}") from exc
    try:
        found = os.fstat(descriptor)
        if expected is not None and (found.st_dev, found.st_ino) != expected:
            raise FolderUnavailableError(f"{os.fsdecode(root)!r} is another folder now")
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _parent_directory(root: int, path: bytes) -> Iterator[tuple[int, bytes]]:
    """The descriptor of the folder that a path stands in, and its name there."""
    *folders, name = path.split(b"/")
    at, mine = root, False
    try:
        for folder in folders:
            below = os.open(folder, _OPEN_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            if mine:
                os.close(at)
            at, mine = below, True
        yield at, name
    finally:
        if mine:
            os.close(at)


def inspect_path(root: int, path: bytes) -> PathStatus:
    """See what stands at a path.

    Args:
        root: descriptor of the folder.
        path: relative, not empty.
    """
    try:
        with _parent_directory(root, path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as exc:
        return PathStatus("absent" if exc.errno in _GONE else "hidden")
    if stat.S_ISREG(found.st_mode):
        return PathStatus("file", found)
    return PathStatus("folder" if stat.S_ISDIR(found.st_mode) else "other")


def directory_mtime_ns(root: int, path: bytes) -> int | None:
    """When something was last put into a folder or taken out of it, in nanoseconds of the disk's
    clock; None where there is no such folder.

    Args:
        root: descriptor of the folder that is watched.
        path: relative; empty for the root.
    """
    try:
        with _parent_directory(root, path or b".") as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mtime_ns if stat.S_ISDIR(found.st_mode) else None


def read_file(root: int, path: bytes, *, max_bytes: int, even_if_open: bool) -> FileRead:
    """Read a file.

    Args:
        root: descriptor of the folder.
        path: relative, of a regular file.
        max_bytes: a larger file is not read.
        even_if_open: read also what somebody has open for writing.
    """
    try:
        with _parent_directory(root, path) as (folder, name):
            descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as exc:
        return FileRead(None, error=exc.errno)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            return FileRead(None, error=errno.ENOENT)
        writing = _is_open_for_writing(descriptor)
        if before.st_size > max_bytes or (writing and not even_if_open):
            return FileRead(before, is_open_for_writing=writing)
        content = _content(descriptor, before.st_size, max_bytes)
        after = os.fstat(descriptor)
        whole = (
            content is not None
            and len(content) == after.st_size
            and _times(before) == _times(after)
        )
        return FileRead(after, content, whole, writing)
    except OSError as exc:
        return FileRead(None, error=exc.errno)
    finally:
        os.close(descriptor)


def _content(descriptor: int, expected: int, max_bytes: int) -> bytes | None:
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(
        descriptor, min(expected - size + 1, _PIECE_BYTES) if size < expected else _REST_BYTES
    ):
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            return None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _times(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_open_for_writing(descriptor: int) -> bool | None:
    """Whether anybody has the file open for writing.

    Linux gives a read lease only on a file that nobody writes, and to its owner or root; it is
    given back at once. A writer that opens the file in between waits these microseconds, and the
    notice of it is sent as SIGURG, which does nothing, instead of SIGIO, which kills.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        fcntl.fcntl(descriptor, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as exc:
        return True if exc.errno in (errno.EAGAIN, errno.EBUSY) else None
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
