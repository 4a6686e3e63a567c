"""`livedex up` as a user starts it, for benchmarks: a process, a folder and HTTP."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil


class Program:
    """One `livedex up` on the folder `docs` of a working folder."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.docs = home / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60, trust_env=False)
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("LIVEDEX_")} | environment
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Seconds from the start until `ready`."""
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
        command = [str(Path(sys.executable).with_name("livedex")), "up", "docs", "--port", str(self.port)]
        self._process = subprocess.Popen(command, cwd=self.home, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(90)
            assert self._process.stdout
            self._process.stdout.close()

    def kill(self) -> float:
        """SIGKILL to every process of it, the database's included; the time of the monotonic clock at which they were all stopped."""
        assert self._process is not None and self._process.stdout
        held: dict[int, psutil.Process] = {}
        while new := [process for process in self._processes() if process.pid not in held]:
            for process in new:  # what is stopped starts no other
                held[process.pid] = process
                _signal(process, signal.SIGSTOP)
        at = time.monotonic()
        for process in held.values():
            _signal(process, signal.SIGKILL)
        self._process.wait(30)
        self._process.stdout.close()
        self.until(lambda: not any(_alive(process) for process in held.values()), 30)
        return at

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        roots = [self._process.pid]
        for pidfile in self.home.glob(".livedex/*/postmaster.pid"):
            pid = int((pidfile.read_text().splitlines() or ["0"])[0])
            if pid and Path(f"/proc/{pid}/cwd").exists() and Path(f"/proc/{pid}/cwd").resolve() == pidfile.parent.resolve():
                roots.append(pid)  # else the file is stale, and the number another's
        found: dict[int, psutil.Process] = {}
        for root in roots:
            try:
                own = psutil.Process(root)
                found |= {process.pid: process for process in [own, *own.children(recursive=True)]}
            except psutil.NoSuchProcess:
                continue
        return list(found.values())

    def command(self, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run another `livedex` command in the same working folder."""
        command = [str(Path(sys.executable).with_name("livedex")), *arguments]
        return subprocess.run(command, cwd=self.home, env=self._environment, capture_output=True, text=True, timeout=timeout_s, check=False)

    def close(self) -> None:
        """Let go of the connections to it."""
        self.http.close()

    def document(self, name: str) -> dict[str, Any] | None:
        """A document by its file name; None when there is none."""
        answer = self.http.get(f"/v1/documents/docs/{name}")
        return None if answer.status_code == 404 else dict(answer.raise_for_status().json())

    def chunks(self, name: str) -> list[dict[str, Any]]:
        """The chunks of a document."""
        return list(self.http.get(f"/v1/documents/docs/{name}/chunks").raise_for_status().json()["chunks"])

    def documents(self) -> list[dict[str, Any]]:
        """Every document, through all pages."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = self.http.get("/v1/documents", params={"limit": 500, **({"cursor": cursor} if cursor else {})}).raise_for_status().json()
            found += page["documents"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def until(self, condition: Callable[[], bool], timeout_s: float, every_s: float = 0.002) -> float:
        """Seconds until a condition holds."""
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > timeout_s:
                raise TimeoutError(f"not so after {timeout_s} s: see {self.home / 'livedex.log'}")
            time.sleep(every_s)
        return time.monotonic() - begin

    def python_memory_mb(self) -> float:
        """Peak resident memory of the Python processes together, in MB."""
        assert self._process is not None
        own = psutil.Process(self._process.pid)
        total = 0.0
        for process in [own, *own.children(recursive=True)]:
            try:
                if "postgres" not in process.name():
                    total += _peak_kb(process.pid) / 1000
            except psutil.NoSuchProcess:
                continue
        return total


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _peak_kb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1])
    return 0.0
