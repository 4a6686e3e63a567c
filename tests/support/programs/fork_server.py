"""Processes of the program that are forked from one that has imported it already.

A new interpreter spends about a second of processor time on importing the program, many times what
most commands take for their work. `multiprocessing`'s fork server imports it once in each test
process. Each command still runs in a process of its own, with its own arguments, environment,
working folder and streams, and ends with its own status.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO

_PACKAGES = ("livedex.cli", "livedex.app")


def can_fork() -> bool:
    """Return whether commands can be forked here.

    Apple's frameworks don't survive a fork, and coverage measures only what starts by itself.
    """
    return sys.platform == "linux" and not any(name.startswith("COVERAGE_") for name in os.environ)


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *_modules()])
    return context


def _modules() -> list[str]:
    """Return every module of the program that a command may import."""
    found = []
    for package in _PACKAGES:
        place = importlib.import_module(package)
        found += [
            each.name
            for each in pkgutil.walk_packages(place.__path__, f"{package}.")
            if not each.name.endswith("__main__")
        ]
    return found


def run_forked(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Args:
        arguments: of the program, without its name.
        folder: its working folder.
        environment: all of it.
        timeout_s: after so many seconds it is killed.

    Returns:
        Its status and what it wrote, as `subprocess.run` has it.

    Raises:
        subprocess.TimeoutExpired: It ran longer than `timeout_s`.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = _context().Process(
            target=_run,
            args=(
                list(arguments),
                str(folder),
                dict(environment),
                *(f"/proc/{os.getpid()}/fd/{stream.fileno()}" for stream in (out, errors)),
            ),
        )
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout_s, _read(out), _read(errors))
        return subprocess.CompletedProcess(
            list(arguments), process.exitcode, _read(out), _read(errors)
        )


def _read(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()


def _run(
    arguments: list[str], folder: str, environment: dict[str, str], out: str, errors: str
) -> None:
    """Become the program; called in the process of the command."""
    for number, place in ((1, out), (2, errors)):
        file = os.open(place, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    # not those of the process that was forked, which may be closed or hold text of its own
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["livedex", *arguments]
    from livedex.cli.main import main

    main()
