"""What a command works on: the index that `livedex up` uses in the same working folder, while it
runs and when it does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext

CONNECTIONS = 4


@asynccontextmanager
async def open_command_context(
    data: Path, *, must_exist: bool = True, query_deadline_s: float | None = None
) -> AsyncIterator[AppContext]:
    """The surroundings of a command; what had to be started for it is stopped at the end.

    Args:
        data: the data directory.
        must_exist: refuse where Livedex was never started.
        query_deadline_s: the longest that the model may take for a query; None: as for the API.

    Raises:
        ConfigError: a setting without sense, or nothing was ever started here.
    """
    from livedex.app.wiring import configure_logging, open_app_context
    from livedex.pipeline.settings.settings import load_settings

    settings = load_settings(Path.cwd())
    configure_logging("debug" if settings.log_level == "debug" else "critical", settings.log_format)
    async with open_app_context(
        settings,
        data,
        connections=CONNECTIONS,
        must_exist=must_exist,
        query_deadline_s=query_deadline_s,
    ) as surroundings:
        yield surroundings
