"""A PostgreSQL of a benchmark's own, which can be killed and comes back at the same address."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.processes import KillOnExit, kill_trees, tree
from livedex.pipeline.store.embedded.server import embedded_postgres


class PostgresServer:
    """Runs while it is entered, and ends with this process, however that ends.

    Args:
        folder: an empty folder for its data.

    Attributes:
        url: of its database, for the role that owns it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runner = asyncio.Runner()
        self._uses = AsyncExitStack()
        self._guard = ExitStack()
        self.url = ""

    def start(self) -> None:
        """Start it, the first time or again."""
        self.url = self._runner.run(self._uses.enter_async_context(embedded_postgres(self._folder)))
        self._guard.enter_context(KillOnExit(self._pid()))

    def kill(self) -> None:
        """kill -9 for all its processes; they are gone when it returns."""
        self._guard.close()
        pid = self._pid()
        kill_trees(lambda: tree(pid))

    def _pid(self) -> int:
        return int((self._folder / "postgres" / "postmaster.pid").read_text().splitlines()[0])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._guard.close()
        with self._runner:
            self._runner.run(self._uses.aclose())
