"""The app behind the server it runs on: the bytes of a request line reach it as they are."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvicorn
from fastapi import FastAPI

from livedex.pipeline.http.uvicorn_server import MAX_REQUEST_TARGET_BYTES, server_config

Ask = Callable[[bytes], Awaitable[bytes]]


@pytest.fixture
async def address(app: FastAPI) -> AsyncIterator[tuple[str, int]]:
    """Where the app is served."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(app))
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    yield bound.getsockname()
    server.should_exit = True
    await serving


@pytest.fixture
def ask(address: tuple[str, int]) -> Ask:
    """Send raw bytes over a new connection; return everything until the server closes it."""

    async def send(request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(request)
            async with asyncio.timeout(20):
                return await reader.read()
        finally:
            writer.close()

    return send


def get(path: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: livedex\r\nConnection: close\r\n\r\n"


def post(body: bytes, length: bytes) -> bytes:
    head = (
        b"POST /v1/search HTTP/1.1\r\nHost: livedex\r\nConnection: close\r\nContent-Type: "
        b"application/json\r\nContent-Length: "
    )
    return head + length + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("path", "document_id"),
    [
        (b"a/../b", "a/../b"),
        (b"../../etc/passwd", "../../etc/passwd"),
        (b"a//b/./c/", "a//b/./c/"),
        (b"a%2F..%2Fb", "a/../b"),
        (b"a%0Ab%0A", "a\nb\n"),
        (b"a%252Fb", "a%2Fb"),
        (b"%F0%9F%A6%8A", "🦊"),
        (b"%E2%90%9BFF", "␛FF"),
    ],
)
async def test_a_path_is_not_tidied_up_on_its_way(ask: Ask, documents, path, document_id):
    documents.known = {document_id}
    assert (await ask(get(b"/v1/documents/" + path))).startswith(b"HTTP/1.1 200 ")
    assert documents.asked == [document_id]


async def test_a_query_does_not_belong_to_the_path(ask: Ask, documents):
    documents.known = {"a?b"}
    assert (await ask(get(b"/v1/documents/a%3Fb?principals=d"))).startswith(b"HTTP/1.1 200 ")


async def test_bytes_that_are_no_utf8_are_a_problem(ask: Ask):
    answer = await ask(get(b"/v1/documents/%FF"))
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"application/problem+json" in answer


async def test_a_body_said_to_be_too_large_is_refused_before_it_is_sent(ask: Ask, engine):
    answer = await ask(post(b"", b"99999999999"))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert engine.asked == []


async def test_a_client_that_leaves_in_the_middle_disturbs_nobody(
    ask: Ask, address, engine, caplog
):
    _, writer = await asyncio.open_connection(*address)
    writer.write(post(b'{"query"', b"500"))
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await ask(post(b'{"query": "a"}', b"14"))).startswith(b"HTTP/1.1 200 ")
    assert len(engine.asked) == 1
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "request_",
    [
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        get(b"/v1/collections?principals=" + b"a" * MAX_REQUEST_TARGET_BYTES),
        post(b"{}", b"-2"),
        post(b"ZZ\r\n{}", b"0\r\nTransfer-Encoding: chunked"),
    ],
)
async def test_what_cannot_be_read_as_http_is_refused_with_a_problem(ask, request_):
    head, _, body = (await ask(request_)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    said = head.lower()
    assert (
        b"content-type: application/problem+json" in said
        and b"x-request-id: " in said
        and b"x-content-type-options: nosniff" in said
    )
    assert f"content-length: {len(body)}".encode() in said
    assert (json.loads(body)["status"], json.loads(body)["type"]) == (
        400,
        "urn:livedex:problem:bad-request",
    )


async def test_a_wish_for_another_protocol_is_let_be(ask):
    wish = get(b"/healthz").replace(
        b"Connection: close",
        b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13",
    )
    assert b"HTTP/1.1 200 " in await ask(wish)
