"""One tenant attacks with the largest searches and bodies that are allowed, idle connections and a backlog: searches and edits of another, quiet and attacked.

The attacker is a set of threads in the process of who measures, on the same machine: the figures are upper bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.fairness import client_of, edits
from bench.program import Program
from bench.table import show

OPERATIONS = 50
_BAR = 2.0
_SEARCHERS, _LOADERS, _IDLE = 8, 2, 100
_WORST = {"query": "word " * 300, "limit": 100, "where": {f"field{n}": {"in": [f"{n}-{m}" for m in range(40)]} for n in range(20)}}


async def run(operations: int = OPERATIONS) -> None:
    """Print the table.

    Args:
        operations: searches of the other tenant, quiet and again attacked; a quarter as many edits.
    """
    await asyncio.to_thread(_run, operations)


def _run(operations: int) -> None:
    with tempfile.TemporaryDirectory(prefix="livedex-bench-", ignore_cleanup_errors=True) as folder:
        program = Program(Path(folder))
        program.start()
        try:
            own, attacker = (client_of(program, tenant) for tenant in ("own", "attacker"))
            for client in (own, attacker):
                client.put("/v1/documents/first", json={"text": "A first word about gardens."}).raise_for_status()
            _edits(own, 3)
            quiet = _searches(own, operations), _edits(own, max(2, operations // 4))
            statuses: dict[int, int] = {}
            with _Attack(program.port, attacker, statuses):
                time.sleep(3)
                attacked = _searches(own, operations), _edits(own, max(2, operations // 4))
            memory = program.python_memory_mb()
        finally:
            program.stop()
            program.close()
    rows = [
        [f"{what}, {name}", *(1000 * at for at in pair), pair[1] / pair[0], f"{_BAR:g}" if name == "p95" else ""]
        for what, calm, busy in zip(("searches", "edits until visible"), quiet, attacked, strict=True)
        for name, share in (("p50", 0.5), ("p95", 0.95))
        for pair in [(_at(calm, share), _at(busy, share))]
    ]
    show("One tenant while another attacks, ms", ["", "quiet", "attacked", "ratio", "bar"], rows)
    print(f"  answers to the attacker by status: {dict(sorted(statuses.items()))}; peak memory {memory:,.0f} MB")


class _Attack:
    """Searches, bodies and idle connections of a tenant, for as long as the block lasts."""

    def __init__(self, port: int, client: httpx.Client, statuses: dict[int, int]) -> None:
        self._port, self._client, self._statuses = port, client, statuses
        self._ending = threading.Event()
        self._idle: list[socket.socket] = []
        self._threads = [
            threading.Thread(target=self._repeat, args=(call,)) for call in [self._search] * _SEARCHERS + [self._load] * _LOADERS
        ]

    def __enter__(self) -> None:
        self._idle = [socket.create_connection(("127.0.0.1", self._port)) for _ in range(_IDLE)]
        for thread in self._threads:
            thread.start()

    def __exit__(self, *ended: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()
        for each in self._idle:
            each.close()

    def _repeat(self, call: Callable[[], int]) -> None:
        while not self._ending.is_set():
            with contextlib.suppress(httpx.HTTPError):
                status = call()
                self._statuses[status] = self._statuses.get(status, 0) + 1

    def _search(self) -> int:
        return self._client.post("/v1/search", json=_WORST).status_code

    def _load(self) -> int:
        text = "\n\n".join(f"{secrets.token_hex(8)} is a word of many. " * 8 for _ in range(200))
        return self._client.put(f"/v1/documents/{secrets.token_hex(4)}", json={"text": text}).status_code


def _edits(client: httpx.Client, count: int) -> list[float]:
    """Seconds that each of these edits took to become visible."""
    return [took_ms / 1000 for took_ms in edits(client, count)]


def _searches(client: httpx.Client, count: int) -> list[float]:
    """Seconds that each of these searches took."""
    took_s = []
    for _ in range(count):
        begin = time.monotonic()
        client.post("/v1/search", json={"query": "gardens"}).raise_for_status()
        took_s.append(time.monotonic() - begin)
        time.sleep(0.02)
    return took_s


def _at(took_s: list[float], share: float) -> float:
    return sorted(took_s)[int((len(took_s) - 1) * share)]
