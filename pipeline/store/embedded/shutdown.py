"""Shutdown of the embedded PostgreSQL server within a time limit."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress

import psutil

FAST_SHUTDOWN_TIMEOUT_S = 30.0
_IMMEDIATE_SHUTDOWN_TIMEOUT_S = 7.0
KILL_TIMEOUT_S = 3.0


def stop_server(server: psutil.Process, child: subprocess.Popen[bytes] | None) -> None:
    """Stop a server: request a fast shutdown, then an immediate one, and finally kill it.

    The next step follows if a stopped process blocks the shutdown, or after a time limit. No data
    is lost: the server recovers at its next start, as after a crash.

    Args:
        server: its main process.
        child: the same process, if this process started it.
    """
    server.send_signal(signal.SIGINT)
    end = time.monotonic() + FAST_SHUTDOWN_TIMEOUT_S
    while not _wait_for_exit(server, child, 0.5):
        if time.monotonic() > end or _is_stopped(server):
            break
    else:
        return
    # immediate shutdown: the server kills processes that do not end within 5 s
    server.send_signal(signal.SIGQUIT)
    if _wait_for_exit(server, child, _IMMEDIATE_SHUTDOWN_TIMEOUT_S):
        return
    for process in [*server.children(recursive=True), server]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _wait_for_exit(server, child, KILL_TIMEOUT_S)


def _wait_for_exit(
    server: psutil.Process, child: subprocess.Popen[bytes] | None, seconds: float
) -> bool:
    """Return whether the server ends within a number of seconds."""
    try:
        if child and child.pid == server.pid:
            child.wait(seconds)
        else:
            server.wait(seconds)
    except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
        return False
    return True


def _is_stopped(server: psutil.Process) -> bool:
    """Return whether a process of the server is stopped by a signal and cannot shut down."""
    try:
        return any(
            process.status() == psutil.STATUS_STOPPED for process in [server, *server.children()]
        )
    except psutil.NoSuchProcess:
        return False
