"""Saved to searchable with `livedex up` over Kafka, on an idle machine."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from pathlib import Path

from bench.fleet import a_kafka
from bench.freshness import EDITS, measured
from bench.program import Program
from bench.table import show
from livedex.pipeline.settings.settings import KAFKA


async def run() -> None:
    """Print the table of freshness, for both ways to save a file."""
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        rows = await asyncio.to_thread(_measure, Path(folder))
    show(f"Saved to searchable over Kafka, {EDITS} edits of a 20 KB file, ms", ["", "p50", "p95", "worst"], [["bar", 250, 600, ""], *rows])


def _measure(home: Path) -> list[list[object]]:
    with a_kafka() as bootstrap:
        return measured(Program(home, LIVEDEX_BROKER_URL=KAFKA + bootstrap, LIVEDEX_KAFKA_PREFIX=f"bench-{secrets.token_hex(4)}."))
