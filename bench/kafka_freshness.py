"""Saved to searchable with `livedex up` over Kafka, on an idle machine."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from pathlib import Path

from bench.fleet import running_kafka
from bench.freshness import EDITS, measured
from bench.program import UpProcess
from bench.table import print_table
from livedex.pipeline.settings.settings import KAFKA_SCHEME


async def run() -> None:
    """Print the table of freshness, for both ways to save a file."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        rows = await asyncio.to_thread(_measure, Path(folder))
    print_table(
        f"Saved to searchable over Kafka, {EDITS} edits of a 20 KB file, ms",
        ["", "p50", "p95", "worst"],
        [["bar", 250, 600, ""], *rows],
    )


def _measure(home: Path) -> list[list[object]]:
    with running_kafka() as bootstrap:
        return measured(
            UpProcess(
                home,
                LIVEDEX_BROKER_URL=KAFKA_SCHEME + bootstrap,
                LIVEDEX_KAFKA_PREFIX=f"bench-{secrets.token_hex(4)}.",
            )
        )
