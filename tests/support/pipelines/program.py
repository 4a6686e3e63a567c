"""The program on a database of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.e2e.test_cli_program import livedex


class LivedexCommand:
    """`livedex COMMAND …` in a folder, on a database.

    Args:
        command: what every call begins with.
    """

    def __init__(self, folder: Path, url: str, *command: str) -> None:
        self.folder, self.url = folder, url
        self._command = command

    async def run(self, *arguments: str) -> Any:
        """Call it; how it ended."""
        return await asyncio.to_thread(
            livedex, self.folder, *self._command, *arguments, LIVEDEX_DATABASE_URL=self.url
        )

    async def told(self, *arguments: str) -> str:
        """Call it, which succeeds without a complaint; what it said."""
        done = await self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)
