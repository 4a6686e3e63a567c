"""Sessions of the database are ended at random while documents are edited, between phases in which
it is read-only or refuses the password:
nothing lost, nothing stuck, no answer 500, and `status --wait` ends with 0 without a restart.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench.chaos_database import FaultyDatabase
from bench.killing import DIMENSIONS, embedder_settings
from bench.postgres import PostgresServer
from bench.program import UpProcess
from bench.put_writer import PutWriter
from bench.table import print_table
from tests.support.http.scripted_embedder import EmbeddingServer

KILLS, OPERATIONS = 100, 500
_DOCUMENTS = 50
_PHASE_S = 6.0
_WAIT_S = 90


@dataclass
class Outcome:
    """What came of it.

    Attributes:
        ended: sessions.
        phases: in which the database took no writes, and how many of them `/readyz` told.
    """

    strikes: int = 0
    ended: int = 0
    phases: int = 0
    told: int = 0
    edits: int = 0
    errors_500: int = 0
    not_accepted: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stuck: int = 0
    waited: int = -1
    waited_s: float = 0.0
    dead: int = 0
    unwell: str = ""
    statuses: str = ""
    ended_with: int | None = None


async def run(kills: int = KILLS, operations: int = OPERATIONS) -> None:
    """Print the table, over the queue in PostgreSQL.

    Args:
        kills: how often sessions are ended.
        operations: edits.
    """
    await run_with_broker(kills, operations, "the PostgreSQL broker", {})


async def run_with_broker(
    kills: int, operations: int, broker: str, settings: dict[str, str]
) -> None:
    """Print the table.

    Args:
        kills: how many processes are killed.
        operations: edits in all.
        broker: `postgres` or `kafka`.
        settings: that choose the broker.
    """
    with tempfile.TemporaryDirectory(prefix="livedex-bench-", ignore_cleanup_errors=True) as folder:
        found = await asyncio.to_thread(_measure, Path(folder), kills, operations, settings)
    print_table(
        f"Sessions ended {kills} times in {operations} edits, with read-only and password "
        f"phases, over {broker}",
        ["", "count", "of", "bar"],
        [
            ["sessions ended", found.ended, found.strikes, "some"],
            ["phases without writes that /readyz told", found.told, found.phases, found.phases],
            ["edits not accepted within two minutes", len(found.not_accepted), found.edits, "0"],
            ["answers 500", found.errors_500, found.edits, "0"],
            ["documents lost: not as last accepted", len(found.lost), _DOCUMENTS, "0"],
            ["events stuck at the end", found.stuck, "", "0"],
            ["dead letters", found.dead, "", "0"],
            ["exit status of status --wait", found.waited, "", "0"],
            ["  seconds that it took", round(found.waited_s, 1), _WAIT_S, ""],
            ["components unwell at the end", found.unwell or "none", "", "none"],
            [
                "exit status after SIGTERM",
                found.ended_with if found.ended_with is not None else "none",
                "",
                "0",
            ],
        ],
    )
    print(f"  answers by status: {found.statuses}")
    for one in [*found.not_accepted[:5], *found.lost[:5]]:
        print(f"  not as it should be: {one}")


@contextmanager
def _program(
    home: Path, settings: dict[str, str], embedder: EmbeddingServer
) -> Iterator[tuple[UpProcess, FaultyDatabase]]:
    with PostgresServer(home / "server") as server:
        database = FaultyDatabase(server, home / "server")
        places = {"LIVEDEX_DATABASE_URL": database.url, "LIVEDEX_OWNER_DATABASE_URL": server.url}
        program = UpProcess(home / "program", **embedder_settings(embedder), **settings, **places)
        migrated = program.command("migrate")
        assert migrated.returncode == 0, migrated.stderr
        database.prepare()
        program.start()
        try:
            yield program, database
        finally:
            program.stop()
            program.close()


def _measure(home: Path, kills: int, operations: int, settings: dict[str, str]) -> Outcome:
    rng, found = random.Random(0), Outcome(edits=operations)
    with (
        EmbeddingServer(DIMENSIONS) as embedder,
        _program(home, settings, embedder) as (program, database),
    ):
        writer = PutWriter(str(program.http.base_url), operations, _DOCUMENTS, pause_s=0.1)
        writer.start()
        phases = {
            round(kills * share): which for share, which in ((0.2, 0), (0.4, 1), (0.6, 2), (0.8, 1))
        }
        while found.strikes < kills or writer.left > 0:
            time.sleep(rng.uniform(0, 0.8))
            found.ended += database.end_sessions(rng, rng.choice((0.1, 0.4, 1.0)))
            found.strikes += 1
            if (which := phases.pop(found.strikes, None)) is not None:
                _phase(program, database, which, found)
        writer.join()
        _look(program, database, writer, found)
    return found


def _phase(program: UpProcess, database: FaultyDatabase, which: int, found: Outcome) -> None:
    """A time without writes: 0 read-only as in a failover, 1 another password, 2 read-only whose
    end no session is told of.
    """
    found.phases += 1
    if which == 1:
        database.set_password(right=False)
    else:
        database.set_read_only(True, end=True)
    end, told = time.monotonic() + _PHASE_S, False
    while time.monotonic() < end:
        told = told or bool(_told(program))
        time.sleep(0.2)
    found.told += told
    if which == 1:
        database.set_password(right=True)
    else:
        database.set_read_only(False, end=which == 0)


def _told(program: UpProcess) -> str:
    """What `/readyz` says of the database; empty where nothing is amiss."""
    try:
        answer = program.http.get("/readyz").json()
    except (httpx.TransportError, ValueError):
        return ""
    reasons = [reason for reason in answer["reasons"] if reason.startswith("database")]
    return "; ".join(
        [*reasons, *([answer["degraded"]["database"]] if "database" in answer["degraded"] else [])]
    )


def _look(program: UpProcess, database: FaultyDatabase, writer: PutWriter, found: Outcome) -> None:
    """Look at what is left, without a restart."""
    begin = time.monotonic()
    found.waited = program.command(
        "status", "--wait", str(_WAIT_S), timeout_s=_WAIT_S + 60
    ).returncode
    found.waited_s = time.monotonic() - begin
    for name, written in sorted(writer.newest.items()):
        document = program.http.get(f"/v1/documents/{name}").json()
        chunks = program.http.get(f"/v1/documents/{name}/chunks").json().get("chunks", [])
        if (
            document.get("version") != written.version
            or document.get("pending_version") is not None
        ):
            found.lost.append(
                f"{name}: version {document.get('version')} of {written.version}, "
                f"{document.get('state')}"
            )
        elif not any(written.mark in chunk["content"] for chunk in chunks):
            found.lost.append(f"{name}: version {written.version} without its text")
    found.stuck = max(database.queue_length(), int(program.metric("livedex_stage_waiting")))
    found.dead = int(program.metric("livedex_dead_letters"))
    ready = program.http.get("/readyz").json()
    found.unwell = ", ".join([*ready["reasons"], *ready["degraded"]])
    found.not_accepted, found.errors_500 = writer.abandoned, writer.statuses[500]
    found.statuses = ", ".join(
        f"{status or 'no answer'}: {count:,}" for status, count in sorted(writer.statuses.items())
    )
    found.ended_with = program.end()
