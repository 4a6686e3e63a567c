"""Which folders the kernel really watches: where the limits of inotify are reached, watchfiles
leaves folders out and says nothing.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_DESCRIPTORS = Path("/proc/self/fd")
_LIMITS = Path("/proc/sys/fs/inotify")
_LEAST = {"max_user_watches": 524_288, "max_user_instances": 1_024}
_creation_lock = threading.Lock()


def create_with_watched_inodes(make: Callable[[], T]) -> tuple[T, set[int] | None]:
    """Make something that watches folders; it, and the inodes that it watches.

    None where the system does not tell.
    """
    with _creation_lock:  # so that what is new is of this one
        before = _inotify_descriptors()
        made = make()
        new = _inotify_descriptors() - before
    return made, _inodes(new) if new else None


def unwatched_directories(paths: Sequence[bytes], inodes: set[int] | None) -> set[bytes]:
    """Return those of the folders that are not watched, though they are there; by their inodes, and
    all of them where these tell nothing.

    Args:
        paths: absolute.
        inodes: that are watched; None: all that was asked for.
    """
    if inodes is None or len(inodes) >= len(paths):
        return set()
    seen: dict[bytes, int] = {}
    for path in paths:
        try:
            seen[path] = os.stat(path).st_ino
        except OSError:
            continue  # it is gone: whoever watches the folder above hears of it
    if len(inodes) >= len(set(seen.values())):
        return set()
    return {
        path
        for path, inode in seen.items()
        if inode not in inodes and os.access(path, os.R_OK | os.X_OK)
    }  # of closed ones the scan tells


def is_watch_limit_error(error: BaseException) -> bool:
    """Return whether a watch could not be made because there are as many as there may be."""
    return getattr(error, "errno", None) in (
        errno.EMFILE,
        errno.ENFILE,
    ) or "Too many open files" in str(error)


def watch_limit_advice(error: BaseException | None = None) -> str:
    """Return which limit of the system is too low, with the command that raises it.

    Args:
        error: that ended a watch; None where folders were left out.
    """
    name = (
        "max_user_instances"
        if error is not None and is_watch_limit_error(error)
        else "max_user_watches"
    )
    try:
        now = int((_LIMITS / name).read_text())
    except (OSError, ValueError):
        return "the system gives no more watches: see its documentation for how to raise that"
    return (
        f"fs.inotify.{name} is {now:,}: raise it with `sudo sysctl "
        f"fs.inotify.{name}={max(2 * now, _LEAST[name])}`"
    )


def _inotify_descriptors() -> set[str]:
    found = set[str]()
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return found
    for name in names:
        try:
            if "inotify" in os.readlink(_DESCRIPTORS / name):
                found.add(name)
        except OSError:
            continue  # closed meanwhile
    return found


def _inodes(descriptors: set[str]) -> set[int] | None:
    found = set[int]()
    for name in descriptors:
        try:
            text = Path("/proc/self/fdinfo", name).read_text()
        except OSError:
            return None
        found |= {
            int(word[4:], 16)
            for line in text.splitlines()
            if line.startswith("inotify ")
            for word in line.split()
            if word.startswith("ino:")
        }
    return found
