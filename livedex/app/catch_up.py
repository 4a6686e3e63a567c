"""Waiting until the index holds what the folders and every accepted event held at the call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.consumer_lag import ConsumerLag
from livedex.pipeline.store.installation_status import InstallationStatus

T = TypeVar("T")

POLL_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class WaitResult:
    """How the wait ended.

    Attributes:
        scanned: the watchers have looked at their folders since the call.
        events, documents: of those at the call, how many are still under way.
    """

    scanned: bool
    events: int
    documents: int

    @property
    def all(self) -> bool:
        """Whether nothing is left."""
        return self.scanned and not self.events and not self.documents

    @property
    def left(self) -> str:
        """What is left, in words."""
        if not self.scanned:
            return "the folders were not yet looked at"
        return f"{self.documents} documents and {self.events} events are under way"


async def wait_for_scan(operations: InstallationStatus, *, deadline: float) -> bool:
    """Let the watchers look at their folders, and wait for it.

    Args:
        operations: state of the installation.
        deadline: by the monotonic clock.

    Returns:
        False when they have not until then.
    """
    request = await operations.request_scan()
    while not await operations.is_scan_done(request):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_INTERVAL_S)
    return True


async def wait_for_catch_up(
    operations: InstallationStatus, backlog: ConsumerLag, *, deadline: float, scan: bool
) -> WaitResult:
    """Wait until all that was accepted up to now has ended, and what came of it: a push of which
    not every file is named is an event that ends
    in others, accepted later, perhaps between two looks.

    Args:
        operations: state of the installation.
        backlog: of the stages.
        deadline: by the monotonic clock; what is under way is looked at once at least.
        scan: let the watchers look first.
    """
    scanned = not scan or await wait_for_scan(operations, deadline=deadline)
    first = await _wait_once(operations, backlog, deadline, scanned)
    return await _wait_once(operations, backlog, deadline, scanned) if first.all else first


async def _wait_once(
    operations: InstallationStatus, backlog: ConsumerLag, deadline: float, scanned: bool
) -> WaitResult:
    """How the wait ended for what was accepted up to now."""
    moment, mark = datetime.now(UTC), await _retry_until(backlog.mark, deadline)
    while True:
        # An event leaves the broker only once its outcome is durable: what is not there when looked
        # at first is in the documents.
        left = await _retry_until(lambda: backlog.left(mark), deadline)
        ended = WaitResult(scanned, left, await operations.pending_since(moment))
        if ended.all or time.monotonic() >= deadline:
            return ended
        await asyncio.sleep(POLL_INTERVAL_S)


async def _retry_until(ask: Callable[[], Awaitable[T]], deadline: float) -> T:
    """The answer of a broker that may be away for a while, such as just after its first start.

    Raises:
        OutageError: the database or the broker does not answer.
    """
    while True:
        try:
            return await ask()
        except OutageError:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(POLL_INTERVAL_S)
