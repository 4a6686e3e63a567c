"""One process of a deployment, for benchmarks: killed, started again, and looked at."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import psutil

from bench.processes import (
    close_parent_pipe,
    freeze_group,
    kill_group,
    peak_mb,
    start_with_parent,
    tree,
)
from bench.reader import LIVEDEX

_STOP_S = 90.0


class RoleProcess:
    """A process `livedex run ROLE`.

    Attributes:
        starts, kills: of it, up to now.
    """

    def __init__(
        self, name: str, arguments: tuple[str, ...], home: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self._command = [LIVEDEX, "run", *arguments]
        self._home, self._environment = home, environment
        self._log, self._said_before = home / f"{name}.log", 0
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self.starts = self.kills = 0

    @property
    def role(self) -> str:
        """What it runs."""
        return self._command[2]

    @property
    def ends(self) -> int:
        """How often it ended though nobody killed it."""
        return self.starts - self.kills - (1 if self.running() else 0)

    def ensure_running(self) -> None:
        """Start it where it does not run."""
        with self._turn:
            if self.running():
                return
            if self._process is not None:
                close_parent_pipe(self._process)
            self._said_before = self._log.stat().st_size if self._log.exists() else 0
            self._process = start_with_parent(
                self._command, cwd=self._home, environment=self._environment, log=self._log
            )
            self.starts += 1

    def running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def ready(self) -> bool:
        """Whether it has said that it runs."""
        with self._log.open("rb") as log:
            log.seek(self._said_before)
            return b"running " in log.read()

    def kill(self) -> float | None:
        """SIGKILL; the time of the monotonic clock at which it stopped, or None when it did not
        run.
        """
        with self._turn:
            if self._process is None or not self.running():
                return None
            self.kills += 1
            return kill_group(self._process)

    def freeze(self, seconds: float) -> float | None:
        """Let it stand still for some seconds; the time of the monotonic clock at which it did, or
        None when it did not run.
        """
        with self._turn:
            if self._process is None or not self.running() or not self.ready():
                return None
            return freeze_group(self._process, seconds)

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        with self._turn:
            if self._process is None:
                return
            if self.running():
                self._process.send_signal(signal.SIGTERM)
                try:
                    self._process.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    kill_group(self._process)
            close_parent_pipe(self._process)

    def peaks_mb(self) -> list[float]:
        """Peak resident memory of its processes, its own first."""
        assert self._process is not None
        found = []
        for process in tree(self._process.pid):
            try:
                if process.name() != "sh":
                    found.append(peak_mb(process.pid))
            except (psutil.NoSuchProcess, OSError):
                continue
        return found
