"""Processes of the benchmarks: ended without leave, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

# Of the shell that becomes the command, with the same pid, in a session of its own: what it leaves
# behind kills them all when our end of
# the pipe closes, which it does when this process ends, however that is.
_BOUND = 'exec 3<&0 </dev/null; (read -r word <&3 || kill -9 -$$) & exec "$@"'


def start_with_parent(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a command whose processes end with this one; what they say is added to a log."""
    with log.open("ab") as out:
        return subprocess.Popen(
            ["sh", "-c", _BOUND, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )


def kill_group(process: subprocess.Popen[bytes]) -> float:
    """SIGKILL to every process of a command of `start_bound`; the time of the monotonic clock at
    which they were all stopped.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGSTOP)
    at = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
    close_parent_pipe(process)
    return at


def freeze_group(process: subprocess.Popen[bytes], seconds: float) -> float:
    """SIGSTOP to every process of a command of `start_bound`, and SIGCONT some seconds later; the
    time of the monotonic clock when they stood still.
    """

    def thaw() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGCONT)

    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGSTOP)
    timer = threading.Timer(seconds, thaw)
    timer.daemon = True
    timer.start()
    return time.monotonic()


def close_parent_pipe(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe of a process that has ended, and end what is left of its session."""
    assert process.stdin is not None
    process.stdin.close()


class KillOnExit:
    """Kills a process that is not our child when this one ends without closing the guard."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen(
            ["sh", "-c", f"read -r word || kill -9 {pid}"],
            stdin=subprocess.PIPE,
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shell.communicate(b"gone\n")


def kill_trees(found: Callable[[], list[psutil.Process]]) -> float:
    """SIGKILL to processes that start others; the time of the monotonic clock at which they were
    all stopped.

    Args:
        found: the processes there are now; asked until no new one comes up.

    Raises:
        TimeoutError: it took too long.
    """
    held: dict[int, psutil.Process] = {}
    while new := [process for process in found() if process.pid not in held]:
        for process in new:  # what is stopped starts no other
            held[process.pid] = process
            _signal(process, signal.SIGSTOP)
    at = time.monotonic()
    for process in held.values():
        _signal(process, signal.SIGKILL)
    end = time.monotonic() + 30
    while any(_alive(process) for process in held.values()):
        if time.monotonic() > end:
            raise TimeoutError("processes that were killed are still there")
        time.sleep(0.002)
    return at


def tree(pid: int) -> list[psutil.Process]:
    """A process and all that it started; empty when it is gone."""
    try:
        own = psutil.Process(pid)
        return [own, *own.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def peak_mb(pid: int) -> float:
    """Peak resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1000
    return 0.0


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
