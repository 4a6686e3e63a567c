"""Commands of the program, each in a process of its own, as a user calls them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.programs.fork_server import can_fork, run_forked

PROGRAM = (sys.executable, "-m", "livedex.cli.main")
"""What a command line begins with."""
TIMEOUT_S = 120


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without settings of the caller's own, and with these variables."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")
    } | more


def livedex(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a working folder, without settings of the caller's own.

    Where it can, it forks a process that has imported the program: that saves a second of
    processor time a command. `run_from_start` runs one as the shell does.
    """
    if not can_fork():
        return run_from_start(folder, *arguments, **environment)
    return run_forked(arguments, folder, clean_environment(**environment), TIMEOUT_S)


def run_from_start(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a new interpreter."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=folder,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def only_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a failing command said: one line on stderr, nothing on stdout."""
    assert done.returncode != 0
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    return line


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
