"""What a command works on: the index that `livedex up` uses in the same working folder, while it runs and when it does not."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from pipeline.cli.wiring import Surroundings
    from pipeline.settings import Settings

CONNECTIONS = 4


@asynccontextmanager
async def opened(data: Path) -> AsyncIterator[Surroundings]:
    """The surroundings of a command; what had to be started for it is stopped at the end.

    Raises:
        ConfigError: a setting without sense, or nothing was ever started here.
    """
    from pipeline.cli.wiring import open_surroundings
    from pipeline.settings import load_settings

    settings = load_settings(Path.cwd())
    if not was_started(settings, data):
        raise ConfigError(f"there is no index in {data}: start `livedex up FOLDER` here first, or name its data directory with --data")
    async with open_surroundings(settings, data, connections=CONNECTIONS) as surroundings:
        yield surroundings


def was_started(settings: Settings, data: Path) -> bool:
    """Whether there may be an index: a database is configured, or `livedex up` was started on this data directory."""
    from pipeline.store.embedded import is_initialised

    return settings.database_url is not None or is_initialised(data)


def is_running(data: Path) -> bool:
    """Whether `livedex up` runs on a data directory: it holds `up.lock` for as long as it lives."""
    try:
        with (data / "up.lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
    except FileNotFoundError:
        return False
