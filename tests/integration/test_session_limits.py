"""What a process that stands still keeps from others: nothing for long."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from types import SimpleNamespace

import asyncpg
import pytest

from livedex.consumers.postgres.queue_engine import open_queue_engine
from livedex.pipeline.errors import OutageError, RetryableError
from livedex.pipeline.model import Reader, TenantId
from livedex.pipeline.store.database import Database, open_database
from livedex.pipeline.store.postgres.session_limits import SESSION_SETTINGS, enable_tcp_keepalive


async def test_a_transaction_that_waits_for_its_client_is_ended_and_lets_go_of_its_locks(
    owner_url: str, owner: asyncpg.Connection, database: Database
) -> None:
    async with database.system("look") as connection:
        assert (
            await connection.fetchval("show idle_in_transaction_session_timeout")
            == SESSION_SETTINGS["idle_in_transaction_session_timeout"]
        )
    async with open_queue_engine(owner_url, 1) as engine, engine.connect() as broker:
        assert (
            await broker.exec_driver_sql("show idle_in_transaction_session_timeout")
        ).scalar_one() == "20s"
    await owner.execute("insert into tenants (tenant_id) values ('t')")
    locked = "select 1 from tenants where tenant_id = 't' for update"

    async def stand_still() -> None:
        async with database.tenant(TenantId("t"), "stand still") as frozen:
            await frozen.execute("set local idle_in_transaction_session_timeout = '200ms'")
            await frozen.execute(locked)
            async with asyncio.timeout(30):
                assert await owner.fetchval(locked) == 1
            await frozen.execute(locked)

    with pytest.raises(OutageError):
        await stand_still()
    async with database.tenant(TenantId("t"), "go on") as again:
        assert await again.fetchval(locked) == 1


async def test_a_connection_asks_the_other_end_whether_it_is_there(owner_url: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as tcp,
    ):
        transport = SimpleNamespace(get_extra_info=lambda name: tcp)
        enable_tcp_keepalive(SimpleNamespace(_transport=transport))
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
    plain = await asyncpg.connect(owner_url)
    try:
        enable_tcp_keepalive(plain)  # whatever kind of socket it is on
        assert await plain.fetchval("select 1") == 1
    finally:
        await plain.close()


@pytest.mark.parametrize("call", ["read", "read on", "key"])
async def test_a_server_process_that_stands_still_holds_up_no_request_for_long(
    owner_url: str, call: str
) -> None:
    async def ask(database: Database) -> None:
        if call == "key":
            async with database.system("look", limit_s=0.2) as connection:
                await connection.fetchval("select 1")
        async with database.read_transaction(Reader(TenantId("t")), "look") as connection:
            if call == "read on":
                os.kill(pid, signal.SIGSTOP)
            await connection.fetchval("select 1")

    async with open_database(owner_url, min_size=1, max_size=2, read_timeout_s=0.2) as database:
        async with database.system("look") as connection:
            pid = await connection.fetchval("select pg_backend_pid()")
        if call != "read on":
            os.kill(pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            with pytest.raises(RetryableError):
                await asyncio.wait_for(ask(database), 30)
            assert time.monotonic() - begin < 15, "it would have waited for the server"
        finally:
            os.kill(pid, signal.SIGCONT)
        async with database.system("look again") as connection:
            assert await connection.fetchval("select pg_backend_pid()") != pid
