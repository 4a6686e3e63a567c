"""`livedex up` on servers that allow few connections, or are reached by URLs that only some
drivers read.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.embedded import server as embedded
from livedex.pipeline.store.embedded.server import embedded_postgres
from livedex.pipeline.store.postgres.connection import connect
from livedex.pipeline.store.postgres.connection_budget import (
    ConnectionBudget,
    ServerCapacity,
    allocate_connections,
)
from livedex.pipeline.store.postgres.conninfo import parse_conninfo
from tests.support.http.free_port import free_port
from tests.support.programs.command import livedex, only_line

_PUTS = 30


@asynccontextmanager
async def livedex_up(home: Path, **environment: str) -> AsyncIterator[httpx.AsyncClient]:
    """The program with nothing to watch, ready."""
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")}
    with (home / "livedex.log").open("w") as log:
        command = [sys.executable, "-m", "livedex.cli.main", "up", "--port", str(port)]
        process = await asyncio.to_thread(
            lambda: subprocess.Popen(
                command,
                cwd=home,
                env=clean | environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        )
    assert process.stdout is not None
    try:
        ready = await asyncio.to_thread(
            lambda out: any(line.startswith("ready http") for line in out), process.stdout
        )
        assert ready, (home / "livedex.log").read_text("utf-8")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            yield http
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0
    finally:
        process.kill()
        process.stdout.close()


async def put(http: httpx.AsyncClient, name: str) -> None:
    """Write a document and wait until it is searchable."""
    answer = await http.put(
        f"/v1/documents/{name}", json={"text": f"Document {name} is about gardens."}
    )
    assert answer.status_code == 202, answer.text
    found = await http.get(f"/v1/sync/{answer.json()['token']}", params={"wait_s": 30})
    assert found.json()["state"] == "synced", found.text


@pytest.mark.parametrize(
    ("most", "form"),
    [
        (
            20,
            "postgresql+asyncpg://{user}@/{dbname}?host=/nowhere,{host}&port={port}&"
            "options=-c%20jit%3Doff",
        ),
        (
            45,
            "host={host} port={port} user={user} dbname={dbname} connect_timeout=5 "
            "channel_binding=prefer",
        ),
    ],
)
async def test_up_fits_a_server_that_allows_few_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, form: str
) -> None:
    monkeypatch.setitem(embedded._SETTINGS, "max_connections", str(most))
    async with embedded_postgres(tmp_path / "server") as url:
        here = {
            "LIVEDEX_DATABASE_URL": form.format(**parse_conninfo(url, {})),
            "PGPORT": "1",
            "PGSSLMODE": "verify-full",
        }
        owner = await connect(url, application_name="a test")
        async with livedex_up(tmp_path, **here) as http:
            await asyncio.gather(*(put(http, f"d{n}") for n in range(_PUTS)))
            assert (await http.get("/readyz")).status_code == 200
            held = await owner.fetchval(
                "select count(*) from pg_stat_activity where application_name like 'livedex%'"
            )
            assert 11 <= held <= min(20, most - 6)
            assert (
                '"synced": 30'
                in (await asyncio.to_thread(livedex, tmp_path, "status", "--json", **here)).stdout
            )
        hoarders = [await connect(url) for _ in range(most - 13)]
        refused = only_line(
            await asyncio.to_thread(livedex, tmp_path, "up", "--port", str(free_port()), **here)
        )
        assert (
            f"connections left (max_connections {most}, 3 reserved" in refused
            and "needs at least 12" in refused
        )
        for connection in (owner, *hoarders):
            await connection.close()


def test_the_connections_of_a_process_are_divided_among_what_it_does() -> None:
    from livedex.app.connection_needs import connection_needs
    from livedex.app.roles import ROLES

    everything = connection_needs(ROLES, Settings(), "livedex up")
    roomy = ServerCapacity(100, 3, 5, 92)
    budget = allocate_connections(everything, roomy, None)
    assert everything.fixed + budget.pool + budget.publishing == 20
    assert allocate_connections(everything, roomy, 50) == ConnectionBudget(28, 13)
    assert allocate_connections(everything, ServerCapacity(20, 3, 0, 17), None) == ConnectionBudget(
        4, 1
    )
    assert allocate_connections(everything, roomy, everything.minimum) == ConnectionBudget(2, 1)
    with pytest.raises(
        ConfigError, match="LIVEDEX_MAX_CONNECTIONS is 5, and livedex up needs at least 12"
    ):
        allocate_connections(everything, roomy, 5)
    with pytest.raises(ConfigError, match="PostgreSQL has 3 connections left"):
        allocate_connections(everything, ServerCapacity(20, 3, 14, 3), None)
    kafka = Settings(broker_url="kafka://h:1")
    assert allocate_connections(
        connection_needs(["chunk"], kafka, "x"), roomy, None
    ) == ConnectionBudget(20, 0)
    assert connection_needs(["chunk"], kafka, "x").minimum == 2
