"""Divide the time of a process among tenants, so that no tenant can use all of it.

Each tenant has an account for each kind of work. The time of its work (steps of the event loop,
threads, database transactions) is debt, which is paid off at the rate of a tenant's share. While
other tenants are active, a tenant's next work starts once its debt is paid, one after the other; a
tenant alone never waits.
"""

from __future__ import annotations

import asyncio
import os
import time
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from livedex.pipeline.errors import RetryableError

T = TypeVar("T")
Work = Literal["read", "write", "ingest"]
"""API reads, accepted changes, and stages.

Separate accounts: a tenant that loads documents still searches fast.
"""
_WORKS: tuple[Work, ...] = get_args(Work)

MOST_WAITING = 64
"""Maximum number of waiting requests of a tenant."""
ACTIVE_S = 2.0
"""Seconds for which a tenant counts as active after its last work started."""
SHARE = 0.15
"""Share of the machine's processors for one tenant."""
_FREE_S = 0.05  # of debt, at which work may still begin
_MOST_DEBT_S = 2.0
_TICK_S = 0.1  # until it is checked again whether others are still active
_LEARNING = 0.2


@dataclass(slots=True)
class Account:
    """Debt of one kind of work of a tenant.

    Attributes:
        debt_s: seconds not paid off at `at_s`.
        at_s: monotonic seconds.
        typical_s: estimated seconds of one piece of work.
        waiting: callers.
        line: held by the caller that is admitted next.
    """

    debt_s: float = 0.0
    at_s: float = 0.0
    typical_s: float = 0.0
    waiting: int = 0
    line: asyncio.Lock = field(default_factory=asyncio.Lock)

    def charge(self, seconds: float) -> None:
        """Add debt.

        Args:
            seconds: used; negative: given back.
        """
        self.debt_s = max(0.0, min(self.debt_s + seconds, _MOST_DEBT_S))

    def pay_off(self, now: float, rate: float) -> None:
        """Reduce the debt by the time since the last call.

        Args:
            now: monotonic seconds.
            rate: seconds paid off per second.
        """
        self.debt_s = max(0.0, self.debt_s - (now - self.at_s) * rate)
        self.at_s = now


@dataclass(slots=True)
class Meter:
    """Measures one piece of work; charges `account` once it is set."""

    account: Account | None = None
    used_s: float = 0.0
    estimated_s: float = 0.0

    def charge(self, seconds: float) -> None:
        """Add time of the work.

        Args:
            seconds: used.
        """
        self.used_s += seconds
        if self.account is not None:
            self.account.charge(seconds)

    def end(self) -> None:
        """Give back the estimate, and update it by the measured time."""
        if self.account is not None:
            self.account.charge(-self.estimated_s)
            self.account.typical_s += _LEARNING * (self.used_s - self.account.typical_s)


_meter: ContextVar[Meter | None] = ContextVar("meter", default=None)


def charge(seconds: float) -> None:
    """Charge time to the metered work of this task, if any.

    Args:
        seconds: used.
    """
    if (meter := _meter.get()) is not None:
        meter.charge(seconds)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run a function in a thread, and charge its processor time.

    Args:
        function: thread-safe.
        *args: of the function.
    """

    def run() -> tuple[T, float]:
        begin = time.thread_time()
        return function(*args), time.thread_time() - begin

    result, took_s = await asyncio.to_thread(run)
    charge(took_s)
    return result


@asynccontextmanager
async def charged_time() -> AsyncIterator[None]:
    """Charge the duration of the block."""
    begin = time.monotonic()
    try:
        yield
    finally:
        charge(time.monotonic() - begin)


async def metered(work: Coroutine[Any, Any, T]) -> T:
    """Run work, and measure its steps on the event loop.

    The work calls `TenantShares.admit` to name its tenant.

    Args:
        work: to run.
    """
    meter = Meter()
    token = _meter.set(meter)
    try:
        return await _stepped(work, meter)
    finally:
        _meter.reset(token)
        meter.end()


@types.coroutine
def _stepped(work: Coroutine[Any, Any, T], meter: Meter) -> Generator[Any, Any, T]:
    step: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        begin = time.perf_counter()
        try:
            awaited = step(value)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            meter.charge(time.perf_counter() - begin)
        try:
            value = yield awaited
            step = work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as exc:  # noqa: BLE001 - thrown into the work, which decides
            step, value = work.throw, exc


class TenantShares:
    """The accounts of all tenants in a process.

    Args:
        share: of the processors that one tenant may use while others are active, > 0, at most 1.
        clock: seconds, monotonic.
    """

    def __init__(self, share: float = SHARE, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share * (os.cpu_count() or 1)  # seconds of work a second
        self._clock = clock
        self._seen: dict[str, float] = {}
        self._accounts: dict[tuple[str, Work], Account] = {}

    async def admit(self, tenant_id: str, work: Work, *, wait_s: float | None = None) -> None:
        """Wait until the tenant's share allows the metered work of this task.

        Args:
            tenant_id: of the work.
            work: its kind.
            wait_s: upper bound of the wait, > 0; None: no bound, of callers or of time.

        Raises:
            RetryableError: the wait would be too long, or too many callers wait.
        """
        account = self._account(tenant_id, work)
        if self._is_contended(tenant_id):
            await self._wait(tenant_id, account, wait_s)
        if (meter := _meter.get()) is not None:
            meter.account, meter.estimated_s = account, account.typical_s
            account.charge(meter.used_s + meter.estimated_s)

    async def _wait(self, tenant_id: str, account: Account, wait_s: float | None) -> None:
        if wait_s is not None and account.waiting >= MOST_WAITING:
            raise RetryableError("too many requests of this tenant are under way", retry_after_s=2)
        account.waiting += 1
        try:
            async with asyncio.timeout(wait_s), account.line:
                while True:
                    rate = self._rate(tenant_id)
                    account.pay_off(self._clock(), rate)
                    left_s = (account.debt_s - _FREE_S) / rate
                    if left_s <= 0 or not self._is_contended(tenant_id):
                        return
                    await asyncio.sleep(min(left_s, _TICK_S))
        except TimeoutError as exc:
            raise RetryableError(
                "too many requests of this tenant are under way", retry_after_s=2
            ) from exc
        finally:
            account.waiting -= 1

    def charge(self, tenant_id: str, work: Work, seconds: float) -> None:
        """Charge time that was used for a tenant outside of its metered work, in s."""
        self._account(tenant_id, work).charge(seconds)

    def are_several_active(self) -> bool:
        """Return whether more than one tenant is active."""
        recent = self._clock() - ACTIVE_S
        return sum(at > recent for at in self._seen.values()) > 1

    def _is_contended(self, tenant_id: str) -> bool:
        """Whether another tenant is active."""
        recent = self._clock() - ACTIVE_S
        return any(at > recent for name, at in self._seen.items() if name != tenant_id)

    def _account(self, tenant_id: str, work: Work) -> Account:
        now = self._clock()
        self._seen[tenant_id] = now
        account = self._accounts.get((tenant_id, work))
        if account is None:
            self._forget(now)
            account = self._accounts[tenant_id, work] = Account(at_s=now)
        account.pay_off(now, self._rate(tenant_id))
        return account

    def _rate(self, tenant_id: str) -> float:
        """How fast each debt of a tenant is paid off: its kinds of work divide its share."""
        busy = sum(
            (each := self._accounts.get((tenant_id, work))) is not None and each.debt_s > _FREE_S
            for work in _WORKS
        )
        return self._share / max(1, busy)

    def _forget(self, now: float) -> None:
        """Forget who was not active for long, whose debt is paid by now."""
        oldest = now - ACTIVE_S - _MOST_DEBT_S / self._share
        self._seen = {name: at for name, at in self._seen.items() if at > oldest}
        self._accounts = {
            key: each
            for key, each in self._accounts.items()
            if key[0] in self._seen or each.waiting
        }
