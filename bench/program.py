"""`livedex up` as a user starts it, for benchmarks: a process, a folder and HTTP."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import psutil

from bench.processes import kill_trees, peak_mb, tree
from bench.reader import LIVEDEX, LivedexClient


class UpProcess(LivedexClient):
    """One `livedex up` on the folder `docs` of a working folder."""

    def __init__(self, home: Path, **environment: str) -> None:
        super().__init__(home, environment)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Seconds from the start until `ready`.

        Raises:
            RuntimeError: the program ended before.
        """
        begin = time.monotonic()
        self.launch()
        assert self._process is not None and self._process.stdout
        for line in self._process.stdout:
            if line.startswith("ready "):
                return time.monotonic() - begin
        last = (self.home / "livedex.log").read_text("utf-8", "replace")[-2000:]
        raise RuntimeError(f"livedex up ended with {self._process.wait()}: {last}")

    def launch(self) -> None:
        """Start it, and wait for nothing."""
        log = (self.home / "livedex.log").open("ab")
        command = [LIVEDEX, "up", "docs", "--port", str(self.port)]
        self._process = subprocess.Popen(
            command,
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self.end()

    def end(self) -> int | None:
        """SIGTERM, and wait for the end; its exit status, None where it never ran."""
        if self._process is None:
            return None
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(90)
        assert self._process.stdout
        self._process.stdout.close()
        return status

    @property
    def pid(self) -> int:
        """Of its first process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> float:
        """SIGKILL to every process of it, the database's included; the time of the monotonic clock
        at which they were all stopped.
        """
        assert self._process is not None and self._process.stdout
        at = kill_trees(self._processes)
        self._process.wait(30)
        self._process.stdout.close()
        return at

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        roots = [self._process.pid]
        for pidfile in self.home.glob(".livedex/*/postmaster.pid"):
            pid = int((pidfile.read_text().splitlines() or ["0"])[0])
            if (
                pid
                and Path(f"/proc/{pid}/cwd").exists()
                and Path(f"/proc/{pid}/cwd").resolve() == pidfile.parent.resolve()
            ):
                roots.append(pid)  # else the file is stale, and the number another's
        return list({process.pid: process for root in roots for process in tree(root)}.values())

    def python_memory_mb(self) -> float:
        """Peak resident memory of the Python processes together, in MB."""
        assert self._process is not None
        total = 0.0
        for process in tree(self._process.pid):
            try:
                if "postgres" not in process.name():
                    total += peak_mb(process.pid)
            except psutil.NoSuchProcess:
                continue
        return total
