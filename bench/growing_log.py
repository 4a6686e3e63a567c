"""A log that grows by a line a second: how often it is read, and how much the tables grow; what
the text itself needs is the baseline.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.program import UpProcess
from bench.table import print_table

_MEGABYTES = 6
_STEPS = 6
_LINE = "2026-01-01 00:00:00 INFO worker {n}: request {n} was answered with 200 after {n} ms\n"


async def run(seconds: int = 180) -> None:
    """Print the table of the growth, in six steps."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        program = UpProcess(Path(folder))
        log = program.docs / "server.log"
        number = 0
        with log.open("w") as file:
            while file.tell() < _MEGABYTES * 1_000_000:
                file.write(_LINE.format(n=number))
                number += 1
        program.start()
        program.until(
            lambda: (program.document("server.log") or {}).get("state") == "synced",
            3600,
            every_s=1.0,
        )
        rows: list[list[object]] = []
        size, versions = _tables_mb(Path(folder)), _published(program)
        for step in range(1, _STEPS + 1):
            end = time.monotonic() + seconds / _STEPS
            while time.monotonic() < end:
                with log.open("a") as file:
                    file.write(_LINE.format(n=number))
                number += 1
                await asyncio.sleep(1.0)
            now, published = _tables_mb(Path(folder)), _published(program)
            rows.append([step * seconds / _STEPS, int(published - versions), now - size])
        asked = time.monotonic()
        assert program.command("status", "--wait", "120").returncode == 0
        waited_s = time.monotonic() - asked
        program.stop()
    added_mb = seconds * len(_LINE) / 1e6
    print_table(
        f"A log of {_MEGABYTES} MB that grows by a line a second ({added_mb:.2g} MB in all); "
        f"`status --wait` then took {waited_s:.1f} s",
        ["seconds", "versions", "growth of the tables, MB"],
        rows,
    )


def _published(program: UpProcess) -> float:
    return program.metric("livedex_events_total") / 3


def _tables_mb(home: Path) -> float:
    """What the tables take on the disk, the write-ahead log apart."""
    total = 0
    for base in home.glob(".livedex/*/base"):
        for path in base.rglob("*"):
            try:
                total += path.stat().st_size if path.is_file() else 0
            except FileNotFoundError:
                continue  # dropped meanwhile
    return total / 1e6
