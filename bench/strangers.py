"""Requests of strangers to a service that asks for keys: what each costs the process, what they
leave in its memory, and how long they hold a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.processes import tree
from bench.program import UpProcess
from bench.table import print_table

OPERATIONS = 10_000
_AT_ONCE = 16
_TRICKLES = 16
_HELD_S = 120.0  # the longest that is waited for a connection to be closed
_BARS = {"ms": 1.0, "mb": 50.0, "s": 15.0}


@dataclass
class Outcome:
    """What the service had of them."""

    cpu_ms: float = 0.0
    grown_mb: float = 0.0
    held_s: float = 0.0
    let_in: int = 0
    errors_500: int = 0


async def run(operations: int = OPERATIONS) -> None:
    """Print each figure beside its bar.

    Args:
        operations: requests, beside a few that come byte by byte.
    """
    with tempfile.TemporaryDirectory(prefix="livedex-bench-", ignore_cleanup_errors=True) as folder:
        program = UpProcess(Path(folder))
        await asyncio.to_thread(program.start)
        try:
            made = await asyncio.to_thread(
                program.command,
                "keys",
                "create",
                "--tenant",
                "default",
                "--name",
                "bench",
                "--scope",
                "search",
            )
            assert made.returncode == 0, made.stderr
            found = await _measure(program.port, psutil.Process(program.pid), operations)
        finally:
            await asyncio.to_thread(program.stop)
            program.close()
    print_table(
        f"{operations} requests without a key, and {_TRICKLES} that come byte by byte",
        ["", "measured", "bar"],
        [
            ["time of the processor for each, ms", found.cpu_ms, f"under {_BARS['ms']:g}"],
            ["growth of memory, MB", found.grown_mb, f"under {_BARS['mb']:g}"],
            ["longest that a connection was held, s", found.held_s, f"under {_BARS['s']:g}"],
            ["requests that were let in", found.let_in, "0"],
            ["answers 500", found.errors_500, "0"],
        ],
    )


async def _measure(port: int, process: psutil.Process, operations: int) -> Outcome:
    found, rng, turns = Outcome(), random.Random(0), asyncio.Semaphore(_AT_ONCE)
    requests = [_request(rng) for _ in range(operations)]

    async def one(request: bytes) -> None:
        async with turns:
            begin = time.monotonic()
            status = await _answer(port, request)
            found.held_s = max(found.held_s, time.monotonic() - begin)
            found.let_in += 200 <= status < 300
            found.errors_500 += status == 500

    await asyncio.gather(*(one(request) for request in requests[: operations // 10]))
    idle = await _idle_share(process)
    memory, cpu, begin = _memory_mb(process), _cpu_s(process), time.monotonic()
    await asyncio.gather(*(one(request) for request in requests))
    found.cpu_ms = 1000 * (_cpu_s(process) - cpu - idle * (time.monotonic() - begin)) / operations
    found.held_s = max(
        [
            found.held_s,
            *await asyncio.gather(*(_trickle(port, rng.random() < 0.5) for _ in range(_TRICKLES))),
        ]
    )
    found.grown_mb = _memory_mb(process) - memory
    return found


def _request(rng: random.Random) -> bytes:
    """A request to a path that needs a key, with headers and a body that make no sense."""
    method, path = rng.choice(
        [
            "POST /v1/search",
            "PUT /v1/documents/x",
            "POST /v1/events",
            "GET /v1/documents",
            "POST /v1/embeddings",
        ]
    ).split()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [
        f"X-{rng.randrange(10**6)}: {rng.randbytes(rng.randrange(40)).hex()}"
        for _ in range(rng.randrange(40))
    ]
    if rng.random() < 0.5:
        lines.append(f"Authorization: Bearer {rng.randbytes(24).hex()}")
    body = b""
    if method != "GET":
        body = rng.choice(
            [
                b"[" * rng.randrange(20_000),
                rng.randbytes(rng.randrange(20_000)),
                json.dumps({"query": "x" * rng.randrange(9_000)}).encode(),
            ]
        )
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _answer(port: int, request: bytes) -> int:
    """The status of the answer; 0 where the connection was closed without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(OSError):
            writer.write(request)
            await writer.drain()
            line = await asyncio.wait_for(reader.readline(), _HELD_S)
            await asyncio.wait_for(reader.read(), _HELD_S)
            return int(line.split()[1]) if line else 0
        return 0
    finally:
        writer.close()


async def _trickle(port: int, in_body: bool) -> float:
    """Send a byte a second; how many seconds the connection was held."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begin = time.monotonic()
    writer.write(
        b"PUT /v1/documents/x HTTP/1.1\r\nHost: localhost\r\n"
        + (b"Content-Length: 100000\r\n\r\n" if in_body else b"X-A: ")
    )
    ended = asyncio.create_task(reader.read())
    while not ended.done() and time.monotonic() - begin < _HELD_S:
        with contextlib.suppress(OSError):
            writer.write(b"x")
        await asyncio.wait([ended], timeout=1)
    held_s = time.monotonic() - begin
    ended.cancel()
    await asyncio.gather(ended, return_exceptions=True)
    writer.close()
    return held_s


async def _idle_share(process: psutil.Process) -> float:
    """Seconds of the processor that it takes in a second while nobody asks."""
    await asyncio.sleep(1)
    before = _cpu_s(process)
    await asyncio.sleep(3)
    return (_cpu_s(process) - before) / 3


def _pythons(process: psutil.Process) -> list[psutil.Process]:
    return [each for each in tree(process.pid) if "postgres" not in each.name()]


def _cpu_s(process: psutil.Process) -> float:
    return float(sum(sum(each.cpu_times()[:2]) for each in _pythons(process)))


def _memory_mb(process: psutil.Process) -> float:
    return float(sum(each.memory_info().rss for each in _pythons(process)) / 1e6)
