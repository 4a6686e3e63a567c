"""One tenant attacks with the largest searches and bodies that are allowed, idle connections and a
backlog: searches and edits of another, quiet and attacked.

The attacker is a process of its own at the lowest priority (`bench.attacker`), which begins with
documents of its own to search.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from bench.attacker import ATTACKS, BACKLOG
from bench.fairness import client_of, edits
from bench.program import UpProcess
from bench.table import print_table

OPERATIONS = 50
_BAR = 2.0
_PAUSE_S = 0.05
_FILLING_S = 20.0
_ALONE_S, _FIRST = 3.0, 40
"""The attacker is alone for so long, and has everything; what it began then is still under way at
the first searches of the other.
"""


async def run(operations: int = OPERATIONS) -> None:
    """Print the table.

    Args:
        operations: searches of the other tenant, quiet and again in each attack; a quarter as many
            edits.
    """
    await asyncio.to_thread(_run, operations)


def _run(operations: int) -> None:
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="livedex-bench-", ignore_cleanup_errors=True) as folder:
        program = UpProcess(Path(folder))
        program.start()
        try:
            own, attacker = (client_of(program, tenant) for tenant in ("own", "attacker"))
            key = attacker.headers["Authorization"].removeprefix("Bearer ")
            own.put(
                "/v1/documents/first", json={"text": "A first word about gardens."}
            ).raise_for_status()
            with _attack(program.port, key, [BACKLOG]):
                time.sleep(_FILLING_S)
            _settle(program)
            _edits(own, 3)
            for name, attacks in [(attack, [attack]) for attack in ATTACKS] + [
                ("everything at once", list(ATTACKS))
            ]:
                quiet = _searches(own, operations), _edits(own, max(2, operations // 4))
                with _attack(program.port, key, attacks) as statuses:
                    time.sleep(_ALONE_S)
                    first = _searches(own, _FIRST)
                    attacked = _searches(own, operations), _edits(own, max(2, operations // 4))
                rows += _rows(name, quiet, attacked, first)
                print(
                    f"  {name}: answers to the attacker by status {statuses}, memory at its "
                    f"peak {program.python_memory_mb():,.0f} MB"
                )
                _settle(program)
        finally:
            program.stop()
            program.close()
    print_table(
        "One tenant while another attacks, ms",
        ["attack", "", "quiet", "attacked", "ratio", "bar"],
        rows,
    )


def _rows(
    attack: str, quiet: Sequence[list[float]], attacked: Sequence[list[float]], first: list[float]
) -> list[list[object]]:
    before = _at(quiet[0], 0.95)
    rows: list[list[object]] = [
        [
            attack,
            f"first {_FIRST} searches, p95",
            1000 * before,
            1000 * _at(first, 0.95),
            _at(first, 0.95) / before,
            "",
        ]
    ]
    return rows + [
        [
            attack,
            f"{what}, {name}",
            1000 * calm,
            1000 * busy,
            busy / calm,
            f"{_BAR:g}" if name == "p95" else "",
        ]
        for what, before, during in zip(
            ("searches", "edits until visible"), quiet, attacked, strict=True
        )
        for name, share in (("p50", 0.5), ("p95", 0.95))
        for calm, busy in [(_at(before, share), _at(during, share))]
    ]


def _settle(program: UpProcess) -> None:
    """Wait until nothing is left of an attack's backlog."""
    while program.metric("livedex_stage_waiting") > 0:
        time.sleep(0.5)
    time.sleep(2)


@contextlib.contextmanager
def _attack(port: int, key: str, attacks: Sequence[str]) -> Iterator[dict[str, int]]:
    """Attack for as long as the block lasts; the answers by status are there after it."""
    statuses: dict[str, int] = {}
    command = [sys.executable, "-m", "bench.attacker", f"http://127.0.0.1:{port}", key, *attacks]
    attacker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield statuses
    finally:
        statuses |= json.loads(attacker.communicate()[0] or "{}")


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
        time.sleep(_PAUSE_S)
    return took_s


def _at(took_s: list[float], share: float) -> float:
    return sorted(took_s)[int((len(took_s) - 1) * share)]
