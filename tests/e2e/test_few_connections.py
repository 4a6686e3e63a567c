"""`livedex up` on servers that allow few connections, or are reached by URLs that only some drivers read."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import httpx
import pytest

from pipeline.errors import ConfigError
from pipeline.settings import Settings
from pipeline.store import embedded
from pipeline.store.connection_budget import ConnectionBudget, ServerRoom, divide
from pipeline.store.connection_parameters import connection_parameters
from pipeline.store.driver_connection import connect
from pipeline.store.embedded import embedded_postgres
from tests.e2e.test_cli_program import livedex, only_line
from tests.free_port import free_port

_PUTS = 30


@asynccontextmanager
async def livedex_up(home: Path, **environment: str) -> AsyncIterator[httpx.AsyncClient]:
    """The program with nothing to watch, ready."""
    port = free_port()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")}
    with (home / "livedex.log").open("w") as log:
        command = [sys.executable, "-m", "pipeline.cli.main", "up", "--port", str(port)]
        process = await asyncio.to_thread(
            lambda: subprocess.Popen(command, cwd=home, env=clean | environment, text=True, stdout=subprocess.PIPE, stderr=log)
        )
    assert process.stdout is not None
    try:
        ready = await asyncio.to_thread(lambda out: any(line.startswith("ready http") for line in out), process.stdout)
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
    answer = await http.put(f"/v1/documents/{name}", json={"text": f"Document {name} is about gardens."})
    assert answer.status_code == 202, answer.text
    found = await http.get(f"/v1/sync/{answer.json()['token']}", params={"wait_s": 30})
    assert found.json()["state"] == "synced", found.text


@pytest.mark.parametrize("most", [20, 45])
async def test_up_fits_a_server_that_allows_few_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setitem(embedded._SETTINGS, "max_connections", str(most))
    async with embedded_postgres(tmp_path / "server") as url:
        async with livedex_up(tmp_path, LIVEDEX_DATABASE_URL=url) as http:
            await asyncio.gather(*(put(http, f"d{n}") for n in range(_PUTS)))
            assert (await http.get("/readyz")).status_code == 200
            owner = await connect(url, application_name="a test")
            held = await owner.fetchval("select count(*) from pg_stat_activity where application_name like 'livedex%'")
            assert 13 <= held <= min(20, most - 6)
            assert '"synced": 30' in (await asyncio.to_thread(livedex, tmp_path, "status", "--json", LIVEDEX_DATABASE_URL=url)).stdout
            await owner.close()
        hoarders = [await connect(url) for _ in range(most - 12)]
        refused = only_line(await asyncio.to_thread(livedex, tmp_path, "up", "--port", str(free_port()), LIVEDEX_DATABASE_URL=url))
        assert f"connections left (max_connections {most}, 3 reserved" in refused and "needs at least 12" in refused
        for hoarder in hoarders:
            await hoarder.close()


@pytest.mark.parametrize(
    "form",
    [
        "postgresql+asyncpg://{user}@/{dbname}?host={host}&port={port}",
        "host={host} port={port} user={user} dbname={dbname} connect_timeout=5 channel_binding=prefer sslmode=prefer",
    ],
)
async def test_what_libpq_takes_serves_the_store_and_the_queue(tmp_path: Path, server_url: str, owner_url: str, form: str) -> None:
    given = form.format(**connection_parameters(owner_url, {}))
    async with livedex_up(tmp_path, LIVEDEX_DATABASE_URL=given, PGPORT="1", PGSSLMODE="verify-full") as http:
        await put(http, "tea")


async def test_more_than_one_host_is_tried(tmp_path: Path, owner_url: str) -> None:
    parameters = connection_parameters(owner_url, {})
    given = f"postgres://{parameters['user']}@/{parameters['dbname']}?host=/nowhere,{parameters['host']}&port=5432&options=-c%20jit%3Doff&application_name=mine"
    async with livedex_up(tmp_path, LIVEDEX_DATABASE_URL=given) as http:
        await put(http, "tea")
        owner = await asyncpg.connect(owner_url)
        assert (
            await owner.fetchval("select count(*) from pg_stat_activity where application_name = 'mine' and datname = current_database()")
            >= 12
        )
        await owner.close()


def test_the_connections_of_a_process_are_divided_among_what_it_does() -> None:
    from pipeline.cli.connection_needs import needs_of
    from pipeline.cli.roles import ROLES

    everything = needs_of(ROLES, Settings(), "livedex up")
    roomy = ServerRoom(100, 3, 5, 92)
    budget = divide(everything, roomy, None)
    assert everything.fixed + budget.pool + budget.publishing == 20
    assert divide(everything, roomy, 50) == ConnectionBudget(28, 13)
    assert divide(everything, ServerRoom(20, 3, 0, 17), None) == ConnectionBudget(4, 1)
    assert divide(everything, roomy, everything.least) == ConnectionBudget(2, 1)
    with pytest.raises(ConfigError, match="LIVEDEX_MAX_CONNECTIONS is 5, and livedex up needs at least 12"):
        divide(everything, roomy, 5)
    with pytest.raises(ConfigError, match="PostgreSQL has 3 connections left"):
        divide(everything, ServerRoom(20, 3, 14, 3), None)
    kafka = Settings(broker_url="kafka://h:1")
    assert divide(needs_of(["chunk"], kafka, "x"), roomy, None) == ConnectionBudget(20, 0)
    assert needs_of(["chunk"], kafka, "x").least == 2
