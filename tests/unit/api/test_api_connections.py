"""Connections to the API are bounded: in number, in bytes, in time, and by whoever was let in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from fastapi import FastAPI

from livedex.pipeline.http import connection_limits
from livedex.pipeline.http import uvicorn_server as wire
from livedex.pipeline.http.connection_limits import ConnectionLimiter
from livedex.pipeline.http.uvicorn_server import server_config

ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SEARCH = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is a hundredth of one."""
    for name in (
        "HEADER_TIMEOUT_S",
        "FIRST_BYTE_TIMEOUT_S",
        "BODY_GRACE_S",
        "UNREAD_BODY_S",
        "ANONYMOUS_IDLE_TIMEOUT_S",
        "STALLED_RESPONSE_TIMEOUT_S",
    ):
        monkeypatch.setattr(wire, name, getattr(connection_limits, name) / 100)
    monkeypatch.setattr(connection_limits, "_TICK_S", 0.01)


@asynccontextmanager
async def serving(app: FastAPI, most: int = 100) -> AsyncIterator[tuple[str, int]]:
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(app, most=most))
    task = asyncio.create_task(server.serve(sockets=[bound]))
    yield bound.getsockname()
    server.should_exit = True
    await task


async def answer(address: tuple[str, int], *parts: bytes, pause_s: float = 0.0) -> bytes:
    """All that comes back until the server closes; nothing where it cuts off."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ((b"",), b""),
        ((b"GET /healthz HT",), b"408"),
        ((b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: y",), b"408"),
        ((SEARCH + b"Content-Length: 20\r\n\r\n{",), b"408"),
        ((SEARCH + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",), b"408"),
        ((b"\x00\xff" * 50,), b"400"),
        ((ASK[:-2] + b"".join(b"X%d: y\r\n" % n for n in range(200)) + b"\r\n",), b"431"),
        ((ASK[:-2] + b"X: " + b"y" * 70_000 + b"\r\n\r\n",), b"431"),
        ((ASK[:-2] + b"X: ", *[b"y" * 65_536] * 20), b"431"),
        ((ASK[:-2] + b"X" * 65_536, *[b"X" * 65_536] * 20), b"431"),
    ],
    ids=[
        "silent",
        "line",
        "head",
        "body",
        "chunks",
        "random",
        "many-headers",
        "long-header",
        "endless-value",
        "endless-name",
    ],
)
async def test_what_does_not_come_or_comes_without_end_is_refused(
    app: FastAPI, sent: tuple[bytes, ...], status: bytes
) -> None:
    async with serving(app) as address:
        found = await answer(address, *sent, pause_s=0.002)
        cut_off = not status or len(sent) > 9  # who goes on sending may be told of the end alone
        assert found.startswith(b"HTTP/1.1 " + status) if found or not cut_off else found == b""
        assert not found or (
            b"application/problem+json" in found and b"x-request-id" in found.lower()
        )
        assert (await answer(address, ASK)).startswith(b"HTTP/1.1 200")


async def test_however_many_connections_are_held_open_the_service_stays_reachable(
    app: FastAPI,
) -> None:
    held = []
    async with serving(app, most=10) as address:
        for sent in (b"", b"GET / HT", SEARCH + b"Content-Length: 2\r\n\r\n{") * 20:
            held.append(await asyncio.open_connection(*address))
            held[-1][1].write(sent)
        assert (await answer(address, ASK)).startswith(b"HTTP/1.1 200")
        for _, writer in held:
            writer.close()


async def test_what_is_still_coming_after_its_answer_is_not_waited_for(app: FastAPI) -> None:
    async with serving(app) as address:
        found = await answer(
            address, b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        )
        assert found.count(b"HTTP/1.1 ") == 1 and found.startswith(b"HTTP/1.1 40")


async def test_a_header_after_the_body_changes_nothing(app: FastAPI) -> None:
    async with serving(app) as address:
        chunked = (
            b'Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n13\r\n{"query": "tea"}   '
            b"\r\n0\r\nX-API-Key: wrong\r\n\r\n"
        )
        assert (await answer(address, SEARCH + chunked)).startswith(b"HTTP/1.1 200")


class _Held:
    def __init__(self, address: str, since: float, phase: connection_limits.Phase = "idle") -> None:
        self.address, self.since, self.phase, self.ended = address, since, phase, False

    def overdue(self, now: float) -> bool:
        return False

    def end(self) -> None:
        self.ended = True


async def test_one_address_has_half_of_the_connections_and_loses_its_own_oldest() -> None:
    limits = ConnectionLimiter(4)
    held = [_Held("10.0.0.1", n) for n in range(3)]
    assert all(limits.enter(each) for each in held)
    assert [each.ended for each in held] == [True, False, False]
    busy = _Held("10.0.0.2", 0, "answer")
    assert limits.enter(busy) and not busy.ended
    near = [_Held("127.0.0.1", 10 + n, "answer") for n in range(2)]
    assert all(limits.enter(each) for each in near) and held[1].ended and len(limits) == 4
    assert limits.enter(_Held("127.0.0.1", 20, "answer")) and held[2].ended
    assert not limits.enter(_Held("127.0.0.1", 21)), "all are being answered"
    limits.leave(busy)
    assert limits.enter(_Held("127.0.0.1", 22))
