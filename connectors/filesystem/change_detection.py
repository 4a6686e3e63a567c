"""What is to be done about one path: the disk as it is now against what the ledger knows.

Blocks: call it in a thread.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from livedex.connectors.filesystem import safe_file_access as disk
from livedex.connectors.filesystem.debouncer import ABSENT_QUIET_S, QUIET_S, remaining_quiet_s
from livedex.connectors.filesystem.document_ids import is_too_long
from livedex.connectors.filesystem.fingerprint import (
    CONTENT,
    PROVISIONAL,
    TOO_LARGE,
    UNREADABLE,
    Fingerprint,
)
from livedex.connectors.filesystem.folder import Folder
from livedex.connectors.filesystem.mount_points import is_below
from livedex.pipeline.store.source_file_store import PublishedFile

BATCH_BYTES = 8_000_000

_TRANSIENT_ERRORS = frozenset(
    {
        # swapped or locked at this very moment
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EAGAIN,
        errno.EINTR,
        errno.ESTALE,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,  # no fault of the file
    }
)
_TRANSIENT_RETRY_S = 0.1

Action = Literal["none", "wait", "record", "publish", "delete", "unnameable"]


@dataclass(frozen=True, slots=True)
class PathCheck:
    """A path that is to be brought up to date.

    Attributes:
        force: publish it even if it is as it was.
        overdue: do not wait for it to come to rest.
        quiet_s: how long it must have rested.
        unchanged_s: how long it has been seen unchanged.
        absent_s: how long it has been seen absent; infinite when that is no matter.
        read_wait_s: a file that grew is not read for so long, see `read_budget`.
        confirmed: somebody said that a document whose file is gone is to go, whatever may be the
            reason.
    """

    path: bytes
    force: bool = False
    overdue: bool = False
    quiet_s: float = QUIET_S
    unchanged_s: float = 0.0
    absent_s: float = float("inf")
    confirmed: bool = False
    read_wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PathFinding:
    """What is to be done about a path.

    Attributes:
        kind: what stands there.
        wait_s: until the next look; None when there is no need for one.
        content: to be published; None where there is none.
        error: what to do about a file that cannot be read.
        existed_before: whether there was a document of it before.
    """

    path: bytes
    action: Action
    kind: disk.Kind
    stat: os.stat_result | None = None
    wait_s: float | None = None
    fingerprint: str = ""
    sha256: bytes | None = None
    content: bytes | None = None
    error: str | None = None
    existed_before: bool = False

    @property
    def has_change(self) -> bool:
        """Whether it has to be told to the intake."""
        return self.action in ("publish", "delete")

    def without_content(self) -> PathFinding:
        """The same without its bytes, to be kept."""
        return replace(self, content=None)


def detect_changes(
    folder: Folder,
    expected: disk.FolderIdentity | None,
    requests: Sequence[PathCheck],
    known: Mapping[bytes, PublishedFile],
) -> list[PathFinding]:
    """Examine paths in order, until the contents read amount to `BATCH_BYTES`; at least one.

    Args:
        folder: the watched folder.
        expected: the folder as it was; None takes whichever is there.
        requests: the paths, at least one.
        known: what the ledger knows of each path.

    Raises:
        FolderUnavailableError: the folder is not there, or another one.
    """
    findings: list[PathFinding] = []
    size = 0
    lost = folder.mounts.lost()
    with disk.open_folder(folder.root, expected) as root:
        for request in requests:
            before = known[request.path]
            finding = detect_change(folder, root, request, before, lost)
            findings.append(replace(finding, existed_before=before.exists))
            size += len(finding.content or b"")
            if size >= BATCH_BYTES:
                break
    return findings


def detect_change(
    folder: Folder, root: int, request: PathCheck, known: PublishedFile, lost: list[bytes]
) -> PathFinding:
    """Decide about one path.

    Args:
        folder: the watched folder.
        root: descriptor of the folder.
        request: the path, and why it is examined.
        known: what the ledger knows of it.
        lost: mount points that are not mounted: what is below cannot be seen.
    """
    seen = disk.inspect_path(root, request.path)
    if (
        seen.kind == "absent"
        and not request.confirmed
        and (known.withheld or is_below(request.path, lost))
    ):
        return PathFinding(request.path, "none", "hidden")
    if seen.kind == "hidden":
        return PathFinding(request.path, "none", "hidden")
    if seen.stat is None or not folder.matcher.selects(request.path):
        return _no_document(request, seen.kind, known)
    if is_too_long(folder.document_id(request.path)):
        return PathFinding(request.path, "unnameable", "file")
    return _document(folder, root, request, seen.stat, known)


def _no_document(request: PathCheck, kind: disk.Kind, known: PublishedFile) -> PathFinding:
    if not known.exists:
        return PathFinding(request.path, "none", kind)
    if kind == "absent" and request.absent_s < ABSENT_QUIET_S and not request.overdue:
        return PathFinding(request.path, "wait", kind, wait_s=ABSENT_QUIET_S - request.absent_s)
    return PathFinding(request.path, "delete", kind)


def _document(
    folder: Folder, root: int, request: PathCheck, found: os.stat_result, known: PublishedFile
) -> PathFinding:
    before = _before(known)
    now = _of(folder, found)
    if now == before and not request.force:
        return PathFinding(request.path, "none", "file", found)
    wait_s = _wait_s(request, found, before, writing=False)
    if wait_s and not request.overdue:
        return PathFinding(request.path, "wait", "file", found, wait_s)
    if (
        request.read_wait_s > 0
        and before is not None
        and before.attributes == now.attributes
        and found.st_size >= before.size > 0
    ):
        return PathFinding(request.path, "wait", "file", found, request.read_wait_s)
    if now.how == TOO_LARGE:
        return _without_content(request, found, now, before)
    reading = disk.read_file(
        root, request.path, max_bytes=folder.max_bytes, even_if_open=request.overdue
    )
    if reading.error is not None:
        return _not_read(folder, request, found, reading.error, before)
    return _as_read(folder, request, reading, known)


def _as_read(
    folder: Folder, request: PathCheck, reading: disk.FileRead, known: PublishedFile
) -> PathFinding:
    found, content = reading.stat, reading.content
    assert found is not None
    before = _before(known)
    wait_s = _wait_s(request, found, before, writing=reading.is_open_for_writing)
    if not reading.whole:
        wait_s = max(wait_s, request.quiet_s)
    if wait_s and not request.overdue:
        return PathFinding(request.path, "wait", "file", found, wait_s)
    now = _of(folder, found)
    if content is None:
        return _without_content(request, found, replace(now, how=TOO_LARGE), before)
    resting = reading.whole and not _wait_s(request, found, before, writing=False)
    now = replace(now, how=CONTENT if resting else PROVISIONAL)
    sha256 = hashlib.sha256(content).digest()
    same = (
        before is not None
        and before.how in (CONTENT, PROVISIONAL)
        and before.attributes == now.attributes
        and known.sha256 == sha256
    )
    later_s = None if resting else request.quiet_s
    if same and not request.force:
        return PathFinding(request.path, "record", "file", found, later_s, now.encode(), sha256)
    return PathFinding(
        request.path, "publish", "file", found, later_s, now.encode(), sha256, content
    )


def _without_content(
    request: PathCheck,
    found: os.stat_result,
    now: Fingerprint,
    before: Fingerprint | None,
    error: str | None = None,
) -> PathFinding:
    same = before is not None and (before.how, before.attributes) == (now.how, now.attributes)
    if same and before == now and not request.force:
        return PathFinding(request.path, "none", "file", found, error=error)
    action: Action = "record" if same and not request.force else "publish"
    return PathFinding(request.path, action, "file", found, fingerprint=now.encode(), error=error)


def _not_read(
    folder: Folder,
    request: PathCheck,
    found: os.stat_result,
    number: int,
    before: Fingerprint | None,
) -> PathFinding:
    if number in _TRANSIENT_ERRORS:
        return PathFinding(
            request.path, "wait", "file", found, wait_s=max(request.quiet_s, _TRANSIENT_RETRY_S)
        )
    error = (
        f"{os.strerror(number)}: let the user that runs Livedex read the file; it is read again "
        "as soon as it changes."
    )
    return _without_content(
        request,
        found,
        Fingerprint.of(f"{UNREADABLE}{number}", found, folder.attributes),
        before,
        error,
    )


def _of(folder: Folder, found: os.stat_result) -> Fingerprint:
    return Fingerprint.of(
        TOO_LARGE if found.st_size > folder.max_bytes else CONTENT, found, folder.attributes
    )


def _before(known: PublishedFile) -> Fingerprint | None:
    return Fingerprint.parse(known.fingerprint) if known.fingerprint else None


def _wait_s(
    request: PathCheck, found: os.stat_result, before: Fingerprint | None, *, writing: bool | None
) -> float:
    return remaining_quiet_s(
        found,
        now_ns=time.time_ns(),
        quiet_s=request.quiet_s,
        unchanged_s=request.unchanged_s,
        emptied=found.st_size == 0 and before is not None and before.size > 0,
        writing=writing,
    )
