"""Read-your-writes: a search with `after` finds each write, with several clients."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from bench.corpus import paragraph
from bench.program import UpProcess
from bench.table import print_table

CLIENTS = 4
_DOCUMENTS = 500  # of each client, written again and again


async def run(operations: int = 10_000) -> None:
    """Print misses and times.

    Args:
        operations: writes, each followed by a search.
    """
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        program = UpProcess(Path(folder))
        await asyncio.to_thread(program.start)
        try:
            async with httpx.AsyncClient(
                base_url=str(program.http.base_url), timeout=60, trust_env=False
            ) as http:
                done = await asyncio.gather(
                    *(_client(http, number, operations // CLIENTS) for number in range(CLIENTS))
                )
        finally:
            await asyncio.to_thread(program.stop)
            program.close()
    times = sorted(second for seconds, _ in done for second in seconds)
    misses = [miss for _, missed in done for miss in missed]
    print_table(
        f"{len(times):,} writes, each followed by a search after its token, {CLIENTS} clients",
        ["", "misses", "p50 ms", "p99 ms", "worst ms"],
        [
            ["bar", 0, "", 400, ""],
            [
                "write and search",
                len(misses),
                1000 * statistics.median(times),
                1000 * times[int(len(times) * 0.99)],
                1000 * times[-1],
            ],
        ],
    )
    for miss in misses[:5]:
        print(f"  missed: {miss}")


async def _client(
    http: httpx.AsyncClient, number: int, operations: int
) -> tuple[list[float], list[str]]:
    """Seconds from the write to the answer of the search, and what was not found."""
    rng, seconds, missed = random.Random(number), [], []
    for turn in range(operations):
        name, mark = f"c{number}/d{rng.randrange(_DOCUMENTS)}", f"mark{number}x{turn}"
        begin = time.monotonic()
        written = (
            (await http.put(f"/v1/documents/{name}", json={"text": f"{paragraph(rng)} {mark}"}))
            .raise_for_status()
            .json()
        )
        asked = {"query": mark, "after": written["token"], "limit": 3}
        found = (await http.post("/v1/search", json=asked)).raise_for_status().json()["hits"]
        seconds.append(time.monotonic() - begin)
        if not any(
            (hit["document_id"], hit["version"]) == (name, written["version"])
            and mark in hit["content"]
            for hit in found
        ):
            missed.append(f"{name} v{written['version']} {mark}")
    return seconds, missed
