"""One tenant edits a document while another loads hundreds: from the answer of the PUT to visible,
quiet and loaded, on both brokers.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import httpx

from bench.corpus import paragraph
from bench.fleet import running_kafka
from bench.program import UpProcess
from bench.reader import LIVEDEX
from bench.table import print_table
from livedex.pipeline.settings.settings import KAFKA_SCHEME

EDITS = 20
_PAUSE_S = 0.1
_LOAD_S = 120.0


async def run(documents: int = 400) -> None:
    """Print the table of one tenant's edits, for both brokers.

    Args:
        documents: that the other tenant loads.
    """
    rows = await asyncio.to_thread(_measure, "PostgreSQL", documents, {})
    with running_kafka() as bootstrap:
        settings = {
            "LIVEDEX_BROKER_URL": KAFKA_SCHEME + bootstrap,
            "LIVEDEX_KAFKA_PREFIX": f"bench-{secrets.token_hex(4)}.",
        }
        rows += await asyncio.to_thread(_measure, "Kafka", documents, settings)
    print_table(
        f"Edits of a tenant while another loads {documents} documents, ms",
        ["", "edits", "p50", "p95", "worst"],
        rows,
    )


def _measure(broker: str, documents: int, settings: dict[str, str]) -> list[list[object]]:
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        program = UpProcess(Path(folder), **settings)
        program.start()
        try:
            small, large = (client_of(program, tenant) for tenant in ("small", "large"))
            edits(small, 3)
            quiet = edits(small, EDITS)
            loader = threading.Thread(target=_load, args=(large, documents))
            loader.start()
            loaded = list[float]()
            end = time.monotonic() + _LOAD_S
            while time.monotonic() < end and (
                loader.is_alive() or program.metric("livedex_stage_waiting") > 0
            ):
                loaded += edits(small, 1)
            loader.join()
        finally:
            program.stop()
    return [_row(f"{broker}, quiet", quiet), _row(f"{broker}, loaded", loaded)]


def client_of(program: UpProcess, tenant: str) -> httpx.Client:
    """HTTP with a new key of a tenant."""
    command = [
        LIVEDEX,
        "keys",
        "create",
        "--tenant",
        tenant,
        "--name",
        "bench",
        "--scope",
        "documents:write",
        "--scope",
        "search",
        "--json",
    ]
    made = subprocess.run(
        command,
        cwd=program.home,
        env=program.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return httpx.Client(
        base_url=f"http://127.0.0.1:{program.port}",
        headers={"Authorization": f"Bearer {json.loads(made.stdout)['key']}"},
        timeout=60,
    )


def _load(client: httpx.Client, documents: int) -> None:
    rng = random.Random(5)
    for n in range(documents):
        client.put(
            f"/v1/documents/d{n}", json={"text": "\n\n".join(paragraph(rng) for _ in range(20))}
        ).raise_for_status()


def edits(client: httpx.Client, count: int) -> list[float]:
    """Milliseconds that each of these edits took to become visible."""
    took_ms = []
    for _ in range(count):
        begin = time.monotonic()
        token = (
            client.put("/v1/documents/own", json={"text": f"{secrets.token_hex(8)} is new"})
            .raise_for_status()
            .json()["token"]
        )
        while client.get(f"/v1/sync/{token}", params={"wait_s": 30}).json()["state"] == "pending":
            continue
        took_ms.append(1000 * (time.monotonic() - begin))
        time.sleep(_PAUSE_S)
    return took_ms


def _row(name: str, took_ms: list[float]) -> list[object]:
    ordered = sorted(took_ms)
    return [
        name,
        len(ordered),
        ordered[len(ordered) // 2],
        ordered[int(len(ordered) * 0.95)],
        ordered[-1],
    ]
