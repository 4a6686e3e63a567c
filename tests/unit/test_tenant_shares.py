"""What one tenant's work takes delays its next work while others are active, and nobody else's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

import pytest

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.runtime import tenant_shares
from livedex.pipeline.runtime.tenant_shares import (
    MOST_WAITING,
    TenantShares,
    charge,
    in_thread,
    metered,
)


async def work(
    shares: TenantShares, tenant: str, took_s: float, kind: tenant_shares.Work = "read"
) -> float:
    """How long a piece of work waited."""

    async def run() -> float:
        begin = time.monotonic()
        await shares.admit(tenant, kind)
        waited = time.monotonic() - begin
        charge(took_s)
        return waited

    return await metered(run())


async def test_a_tenant_that_is_alone_never_waits() -> None:
    shares = TenantShares(0.1)
    assert sum([await work(shares, "a", 5.0) for _ in range(20)]) < 0.05


async def test_what_one_tenant_used_delays_its_own_next_work_and_not_that_of_others() -> None:
    shares = TenantShares(1.0)
    await work(shares, "small", 0.001)
    await work(shares, "large", 1.0)
    large = asyncio.create_task(work(shares, "large", 0.0))
    others = [await work(shares, "small", 0.001) for _ in range(20)]
    assert not large.done()
    assert sum(others) < 0.05
    assert await large > 0.2


async def test_a_tenant_stops_waiting_once_the_others_are_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_shares, "ACTIVE_S", 0.2)
    shares = TenantShares(0.0001)
    await work(shares, "small", 0.0)
    await work(shares, "large", 2.0)
    assert await work(shares, "large", 0.0) < 5  # paying the debt off would take hours


async def test_kinds_of_work_have_accounts_of_their_own() -> None:
    shares = TenantShares(0.01)
    await work(shares, "small", 0.0)
    await work(shares, "large", 2.0, "ingest")
    assert await work(shares, "large", 0.0, "read") < 0.05, (
        "a search does not wait for the documents of its own tenant"
    )


async def test_more_requests_than_may_wait_are_told_to_come_back() -> None:
    shares = TenantShares(0.0001)
    await work(shares, "small", 0.0)
    await work(shares, "large", 2.0)
    waiting = [
        asyncio.create_task(shares.admit("large", "read", wait_s=30)) for _ in range(MOST_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(RetryableError, match="too many requests of this tenant") as refused:
        await shares.admit("large", "read", wait_s=30)
    assert refused.value.retry_after_s
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    # who was cancelled has left no trace: it waits, and for no longer than it may
    with pytest.raises(RetryableError):
        await shares.admit("large", "read", wait_s=0.05)


async def test_the_steps_on_the_loop_and_in_threads_are_what_is_charged_and_waiting_is_not() -> (
    None
):
    shares = TenantShares(0.5)

    async def busy() -> None:
        await shares.admit("a", "read")
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            pass
        await asyncio.sleep(0.3)
        await in_thread(spin, 0.1)

    def spin(seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    meter = tenant_shares.Meter()
    async with asyncio.timeout(30):
        await tenant_shares._stepped(busy(), meter)
    await metered(busy())
    account = shares._accounts["a", "read"]
    assert 0.08 < meter.used_s < 0.25
    assert 0.15 < account.debt_s < 0.29


async def test_an_error_and_a_cancellation_pass_through_what_is_measured() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await metered(fail())

    async def survive() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "cleaned up"
        return "never"

    task = asyncio.create_task(metered(survive()))
    await asyncio.sleep(0.01)
    task.cancel()
    assert await task == "cleaned up"

    async def value(awaited: Awaitable[int]) -> int:
        return await awaited

    assert await metered(value(asyncio.sleep(0, 7))) == 7
