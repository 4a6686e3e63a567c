"""Limits concurrent requests per credential over all processes.

A slot is taken in the database and kept for a moment after the request, so that requests in quick
succession need no round trip. The slots of a crashed process expire.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from livedex.pipeline.errors import LivedexError
from livedex.pipeline.runtime.supervision import run_supervised

log = logging.getLogger(__name__)

_IDLE_S = 0.25
_LOOK_AGAIN_S = 2 * _IDLE_S + 0.1  # by then, other processes have released unused slots
_RENEW_S = 5.0


class ConcurrencySlots(Protocol):
    """Slots shared by all processes; `livedex.pipeline.store.rate_limit_store.RateLimitStore`
    implements it.
    """

    async def take_slot(self, credential: str, most: int) -> bool:
        """Return whether a slot for one more concurrent request was taken."""
        ...

    async def release_slots(self, slots: Mapping[str, int]) -> None:
        """Release slots."""
        ...

    async def renew_slots(self) -> None:
        """Renew the slots of this process."""
        ...


@dataclass(slots=True)
class _HeldSlots:
    """The slots of this process for a credential.

    Attributes:
        taken: slots taken in the database.
        busy: running requests.
        peak: maximum of `busy` since the last release of unused slots.
        waiting: requests waiting for a slot.
        turn: held while slots are taken or released.
    """

    taken: int = 0
    busy: int = 0
    peak: int = 0
    waiting: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class ConcurrencyLimiter:
    """Limits concurrent requests; `open_concurrency_limiter` opens it.

    Args:
        room: the shared slots.
        most: maximum number of concurrent requests per credential over all processes, >= 1.
    """

    def __init__(self, room: ConcurrencySlots, most: int) -> None:
        self.most = most
        self._room = room
        self._held: dict[str, _HeldSlots] = {}
        self._owed: dict[str, int] = {}

    async def enter(self, credential: str) -> bool:
        """Return whether a request may begin; if so, call `leave` at its end.

        Args:
            credential: id of the API key or token.

        Raises:
            OutageError: the shared slots are unavailable.
            RetryableError: a retry can succeed.
        """
        held = self._held.setdefault(credential, _HeldSlots())
        held.waiting += 1
        try:
            if held.busy >= held.taken and not await self._take(credential, held):
                await asyncio.sleep(_LOOK_AGAIN_S)
                if held.busy >= held.taken and not await self._take(credential, held):
                    return False
            held.busy += 1
            held.peak = max(held.peak, held.busy)
            return True
        finally:
            held.waiting -= 1

    def leave(self, credential: str) -> None:
        """Record the end of a request."""
        self._held[credential].busy -= 1

    async def _take(self, credential: str, held: _HeldSlots) -> bool:
        """Take a slot for this process, unless another request took one meanwhile."""
        async with held.turn:
            if held.busy < held.taken:
                return True
            if held.busy >= self.most or not await self._room.take_slot(credential, self.most):
                return False
            held.taken += 1
            return True

    async def release_unused(self) -> None:
        """Release the slots that were not used since the last call."""
        for credential, held in list(self._held.items()):
            spare = held.taken - max(held.peak, held.busy) if not held.waiting else 0
            held.peak = held.busy
            if spare > 0:
                held.taken -= spare
                self._owed[credential] = self._owed.get(credential, 0) + spare
            if not (held.taken or held.busy or held.waiting):
                del self._held[credential]
        if self._owed:
            owed, self._owed = self._owed, {}
            try:
                await self._room.release_slots(owed)
            except BaseException:
                for credential, slots in owed.items():
                    self._owed[credential] = self._owed.get(credential, 0) + slots
                raise

    async def keep(self) -> None:
        """Release unused slots and renew the others until cancelled."""
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(_IDLE_S)
            try:
                await self.release_unused()
                if self._held and time.monotonic() - renewed > _RENEW_S:
                    renewed = time.monotonic()
                    await self._room.renew_slots()
            except LivedexError as exc:
                log.debug("limits: %s", exc)


@asynccontextmanager
async def open_concurrency_limiter(
    room: ConcurrencySlots, most: int
) -> AsyncIterator[ConcurrencyLimiter]:
    """Open a limiter, and release its slots at the end of the block.

    Args:
        room: the shared slots.
        most: maximum number of concurrent requests per credential over all processes, >= 1.
    """
    limiter = ConcurrencyLimiter(room, most)
    task = asyncio.create_task(run_supervised(limiter.keep, "limits"), name="limits")
    try:
        yield limiter
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        try:
            await limiter.release_unused()
            await limiter.release_unused()
        except LivedexError as exc:
            log.debug("limits: %s", exc)
