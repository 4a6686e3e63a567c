"""Room for bodies: taken as they arrive, half of it by one owner, given back whatever happens;
large ones on disk, then in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.http import body_budget as module
from livedex.pipeline.http import body_spool as large_bodies
from livedex.pipeline.http.body_budget import BodyBudget


class Sent:
    """A request of a tenant whose body comes in these parts."""

    def __init__(self, tenant: str, *parts: bytes, announced: int | None = None) -> None:
        self.headers = Headers({} if announced is None else {"content-length": str(announced)})
        self.state, self.client = SimpleNamespace(caller=SimpleNamespace(tenant_id=tenant)), None
        self._parts = parts

    async def stream(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


async def taken(admission: BodyBudget, sent: Any) -> bytes:
    async with admission.body(sent, 100) as body:
        return body


async def test_what_is_only_announced_takes_no_room_and_one_owner_leaves_half_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAIT_TIMEOUT_S", 0.01)
    admission = BodyBudget(requests=4, room_bytes=200, large_bytes=100)
    sent: Any = Sent("a", b"x", announced=100)
    async with admission.body(sent, 100), admission.body(sent, 100):
        assert await taken(admission, Sent("b", b"y" * 60, b"y" * 40)) == b"y" * 100
        with pytest.raises(RetryableError):
            await taken(admission, Sent("a", b"x" * 99))
        with pytest.raises(HTTPException):
            await taken(admission, Sent("b", b"", announced=101))
        with pytest.raises(HTTPException):
            await taken(admission, Sent("b", b"y" * 60, b"y" * 60))
    assert await taken(admission, Sent("a", b"x" * 100)) == b"x" * 100
    assert await taken(admission, Sent("a")) == b""


async def test_large_bodies_are_whole_in_memory_one_after_the_other_and_all_get_their_turn() -> (
    None
):
    admission = BodyBudget(requests=4, room_bytes=64, large_bytes=100, kept_bytes=10)
    in_memory = most = 0

    async def send(tenant: str, mark: bytes) -> None:
        nonlocal in_memory, most
        async with admission.body(cast(Request, Sent(tenant, *[mark * 8] * 10)), 100) as body:
            assert body == mark * 80
            in_memory += 1
            most = max(most, in_memory)
            await asyncio.sleep(0.001)
            in_memory -= 1

    await asyncio.gather(*(send("a", bytes([65 + n])) for n in range(20)), send("b", b"z"))
    assert most == 1
    assert await taken(admission, Sent("a", b"x" * 9)) == b"x" * 9


async def test_large_bodies_that_do_not_come_on_leave_places_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_bodies, "SPOOL_TIMEOUT_S", 0.05)
    admission, gate = (
        BodyBudget(requests=4, room_bytes=500, large_bytes=100, kept_bytes=10),
        asyncio.Event(),
    )

    class Stalled(Sent):
        async def stream(self) -> AsyncIterator[bytes]:
            yield b"x" * 20
            await gate.wait()

    stalled = [
        asyncio.create_task(taken(admission, Stalled("a")))
        for _ in range(large_bodies.MAX_SPOOLED_BODIES // 2)
    ]
    await asyncio.sleep(0.1)
    with pytest.raises(RetryableError):
        await taken(admission, Sent("a", b"y" * 20))
    assert await taken(admission, Sent("b", b"y" * 20)) == b"y" * 20
    stalled[0].cancel()
    await asyncio.wait(stalled[:1])
    assert await taken(admission, Sent("a", b"y" * 20)) == b"y" * 20
    gate.set()
    assert await asyncio.gather(*stalled[1:]) == [b"x" * 20] * (len(stalled) - 1)


async def test_who_waits_too_long_for_a_turn_is_told_to_come_again_and_no_turn_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_bodies, "SPOOL_TIMEOUT_S", 0.05)
    admission = BodyBudget(requests=4, room_bytes=500, large_bytes=100, kept_bytes=10)
    large: Any = Sent("a", b"x" * 60)
    async with admission.body(large, 100):
        first, second = (asyncio.create_task(taken(admission, large)) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        for told in await asyncio.gather(first, second, return_exceptions=True):
            assert isinstance(told, RetryableError | asyncio.CancelledError)
    assert await asyncio.gather(*(taken(admission, large) for _ in range(3))) == [b"x" * 60] * 3
