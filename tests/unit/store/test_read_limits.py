"""Read slots: a tenant leaves room for others, a credential for its tenant's others."""

from __future__ import annotations

import asyncio

import pytest

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.request_context import current_credential
from livedex.pipeline.store.postgres.read_limiter import MAX_WAITING_READS, ReadLimiter

A, B = TenantId("a"), TenantId("b")


async def read(
    limits: ReadLimiter, tenant_id: TenantId, done: list[str], name: str, gate: asyncio.Event
) -> None:
    current_credential.set(name[0])
    async with limits.turn(tenant_id):
        done.append(name)
        await gate.wait()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_tenant_leaves_a_turn_to_others_and_half_once_they_ask() -> None:
    limits, gate, done = ReadLimiter(4, wait_s=5), asyncio.Event(), list[str]()
    reads = [asyncio.create_task(read(limits, A, done, f"x{n}", gate)) for n in range(10)]
    await settled()
    assert len(done) == 3
    reads += [asyncio.create_task(read(limits, B, done, f"b{n}", gate)) for n in range(3)]
    await settled()
    assert [name for name in done if name[0] == "b"] == ["b0", "b1"]
    assert limits.share(A) == limits.share(B) == 2
    gate.set()
    await asyncio.gather(*reads)
    assert len(done) == 13


async def test_the_credentials_of_a_tenant_take_turns() -> None:
    limits, gate, done = ReadLimiter(2, wait_s=5), asyncio.Event(), list[str]()
    gate.set()
    async with limits.turn(A):
        reads = [
            asyncio.create_task(read(limits, A, done, name, gate))
            for name in ("x0", "x1", "x2", "x3", "y0", "z0")
        ]
        await settled()
        assert done == []
    await asyncio.gather(*reads)
    assert done == ["x0", "y0", "z0", "x1", "x2", "x3"]


async def test_a_read_that_waits_too_long_is_told_to_retry_and_no_slot_is_lost() -> None:
    limits, gate, done = ReadLimiter(2, wait_s=0.2), asyncio.Event(), list[str]()
    async with limits.turn(A):
        waiting = [
            asyncio.create_task(read(limits, A, done, "x", gate))
            for _ in range(MAX_WAITING_READS + 1)
        ]
        cancelled = waiting[0]
        await settled()
        cancelled.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in found] == [
        asyncio.CancelledError,
        *[RetryableError] * MAX_WAITING_READS,
    ]
    async with asyncio.timeout(1), limits.turn(A):
        pass
    assert limits.share(A) == 1
    with pytest.raises(ValueError, match="own"):
        async with limits.turn(A):
            raise ValueError("its own error")
    async with asyncio.timeout(1), limits.turn(A):
        pass
