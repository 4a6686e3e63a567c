"""What runs, as its users see it: a folder, HTTP and the commands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

LIVEDEX = str(Path(sys.executable).with_name("livedex"))


def free_port() -> int:
    """A port of this machine that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class LivedexClient:
    """A working folder whose folder `docs` is watched, and the API on a port of its own.

    Args:
        environment: beside that of this process, from which settings of Livedex are left out.
    """

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self.home = home
        self.docs = home / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", timeout=60, trust_env=False
        )
        self.environment = {
            k: v for k, v in os.environ.items() if not k.startswith("LIVEDEX_")
        } | environment

    def command(self, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a `livedex` command in the working folder."""
        command = [LIVEDEX, *arguments]
        return subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def close(self) -> None:
        """Let go of the connections to it."""
        self.http.close()

    def document(self, name: str) -> dict[str, Any] | None:
        """A document by its file name; None when there is none."""
        answer = self.http.get(f"/v1/documents/docs/{name}")
        return None if answer.status_code == 404 else dict(answer.raise_for_status().json())

    def chunks(self, name: str) -> list[dict[str, Any]]:
        """The chunks of a document."""
        return list(
            self.http.get(f"/v1/documents/docs/{name}/chunks").raise_for_status().json()["chunks"]
        )

    def seen(self, name: str) -> tuple[int | None, list[str]]:
        """The version of a document that is visible, None when there is none, and the contents of
        its chunks, of one answer.
        """
        answer = self.http.get(f"/v1/documents/docs/{name}/chunks")
        if answer.status_code == 404:
            return None, []
        found = answer.raise_for_status().json()
        return found["version"], [chunk["content"] for chunk in found["chunks"]]

    def documents(self) -> list[dict[str, Any]]:
        """Every document, through all pages."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = (
                self.http.get(
                    "/v1/documents", params={"limit": 500, **({"cursor": cursor} if cursor else {})}
                )
                .raise_for_status()
                .json()
            )
            found += page["documents"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.split("{")[0].split(" ")[0] == name
        )

    def until(
        self, condition: Callable[[], bool], timeout_s: float, every_s: float = 0.002
    ) -> float:
        """Seconds until a condition holds.

        Raises:
            TimeoutError: it took too long.
        """
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > timeout_s:
                raise TimeoutError(f"not so after {timeout_s} s: see the logs in {self.home}")
            time.sleep(every_s)
        return time.monotonic() - begin
