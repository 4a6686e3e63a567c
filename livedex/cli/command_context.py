"""What a command works on: the index that `livedex up` uses in the same working folder, while it runs and when it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from livedex.app.wiring import Surroundings

CONNECTIONS = 4


@asynccontextmanager
async def opened(data: Path, *, must_exist: bool = True, query_deadline_s: float | None = None) -> AsyncIterator[Surroundings]:
    """The surroundings of a command; what had to be started for it is stopped at the end.

    Args:
        must_exist: refuse where Livedex was never started.
        query_deadline_s: the longest that the model may take for a query; None: as for the API.

    Raises:
        ConfigError: a setting without sense, or nothing was ever started here.
    """
    from livedex.app.wiring import open_surroundings, set_up_logging
    from livedex.pipeline.settings.settings import load_settings

    settings = load_settings(Path.cwd())
    set_up_logging("debug" if settings.log_level == "debug" else "critical")
    async with open_surroundings(
        settings, data, connections=CONNECTIONS, must_exist=must_exist, query_deadline_s=query_deadline_s
    ) as surroundings:
        yield surroundings
