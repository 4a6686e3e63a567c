"""A backlog of small changes that is there before the stages start: memory stays bounded, and
everything becomes visible.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

from bench.fleet import MultiProcessDeployment, running_deployment
from bench.small import publish, small_changes, visible_documents_at
from bench.table import print_table
from livedex.consumers.kafka.topics import ensure_topics
from livedex.pipeline.events.event import CHANGED

COUNTS = {"chunk": 1, "embed": 1, "sync": 1}
BAR_MB = 400
_LOOK_EVERY_S = 15.0
_LIMIT_S = 3600.0


async def run(documents: int = 100_000) -> None:
    """Print the tables of the backlog."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        await asyncio.to_thread(_measure, Path(folder), documents)


def _measure(home: Path, documents: int) -> None:
    with running_deployment(home, COUNTS) as fleet:
        asyncio.run(ensure_topics(fleet.kafka, (fleet.bootstrap,)))
        asyncio.run(
            publish(fleet.bootstrap, fleet.kafka.prefix + CHANGED, small_changes(documents))
        )
        begin = time.monotonic()
        fleet.start()
        lags = _worked_off(fleet, begin)
        took_s = time.monotonic() - begin
        peaks = [(member.name, peaks) for member in fleet.members if (peaks := member.peaks_mb())]
        dead, ends = int(json.loads(fleet.command("status", "--json").stdout)["dead"]), fleet.ends
        found = asyncio.run(visible_documents_at(fleet.database.url))
    print_table(
        f"What `livedex status` says of a backlog of {documents} changes",
        ["seconds", "chunk", "embed", "sync"],
        lags,
    )
    print_table(
        f"A backlog of {documents} changes, one process a stage, {took_s:.0f} s "
        f"({documents / took_s:.0f} changes/s)",
        ["", "found", "bar"],
        [
            ["visible at the end", found, documents],
            ["dead letters", dead, 0],
            ["processes that ended by themselves", ends, 0],
            *([f"peak memory, MB: {name}", peaks[0], f"under {BAR_MB}"] for name, peaks in peaks),
            *(
                [f"peak memory, MB: a process that {name} started", peak, f"under {BAR_MB}"]
                for name, peaks in peaks
                for peak in peaks[1:]
            ),
        ],
    )


def _worked_off(fleet: MultiProcessDeployment, begin: float) -> list[list[object]]:
    """What was said of the lag until there was none.

    Raises:
        TimeoutError: it took too long.
    """
    rows: list[list[object]] = []
    while True:
        said = fleet.command("status", "--json")
        assert said.returncode == 0, said.stderr
        waiting = {
            name: int(stage["waiting"]) for name, stage in json.loads(said.stdout)["stages"].items()
        }
        rows.append([round(time.monotonic() - begin), *waiting.values()])
        if not any(waiting.values()):
            return rows
        if time.monotonic() - begin > _LIMIT_S:
            raise TimeoutError(f"still waiting after {_LIMIT_S:.0f} s: {waiting}")
        time.sleep(_LOOK_EVERY_S)
