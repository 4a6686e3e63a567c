"""Whether Livedex runs on a data directory."""

from __future__ import annotations

import fcntl
from pathlib import Path


def is_running(data: Path) -> bool:
    """Whether `livedex up` or `livedex run` runs on a data directory: it holds `up.lock` for as
    long as it lives.
    """
    try:
        with (data / "up.lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
    except FileNotFoundError:
        return False
