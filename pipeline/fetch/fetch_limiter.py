"""Whose turn it is: one server that is slow, away or asks for patience must hold up no documents
but its own.

| the server | what its fetches do |
|---|---|
| is slow | at most `each` of them wait for it, and `share` of one tenant for all that are slow;
others come back later, and no attempt is used up |
| did not answer `_AWAY` times in a row | fail at once, which is an attempt; one at growing
intervals asks it again |
| asked for patience | come back when it is over, and no attempt is used up |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from livedex.pipeline.errors import NotScheduledError, RetryableError
from livedex.pipeline.fetch.bounds import FetchLimits
from livedex.pipeline.fetch.ssrf_guard import UNAVAILABLE_RETRY_DELAY_S
from livedex.pipeline.fetch.urls import Origin
from livedex.pipeline.runtime.backoff import exponential_backoff_s

MAX_HOST_WAIT_S = 3600.0
MAX_EVENT_WAIT_S = 300.0
"""That one event waits before it is looked at again."""

_AWAY = 3
_LONGEST_PAUSE_S = 30.0
_COME_BACK_S = 0.5
_REFUSED_A_SECOND = 20
_LONGEST_COME_BACK_S = 10.0
_MOST_SERVERS = 1000


@dataclass(slots=True)
class _Server:
    """What is known of a server.

    Attributes:
        failures: without an answer, in a row.
        ask_at: while it is away, the time from which one may ask it again.
        patience_until: what it asked for.
        users: fetches that hold or wait for a turn.
        refused: since somebody got a turn: the more wait, the later they come back.
    """

    turns: asyncio.Semaphore
    failures: int = 0
    ask_at: float = 0.0
    patience_until: float = 0.0
    users: int = 0
    refused: int = 0


class FetchLimiter:
    """Turns of one process.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, bounds: FetchLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds, self._clock = bounds, clock
        self._all = asyncio.Semaphore(bounds.at_once)
        self._servers: dict[Origin, _Server] = {}
        self._shares: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def turn(self, origin: Origin, tenant: str) -> AsyncIterator[None]:
        """Hold a turn for as long as the block lasts.

        Raises:
            NotScheduledError: there is none now.
            RetryableError: the server is away, and is not asked for now.
        """
        server = self._server(origin)
        share = self._shares.setdefault(tenant, asyncio.Semaphore(self._bounds.share))
        self._look(server, origin)
        if server.users >= 2 * self._bounds.max_per_origin:
            raise self._none(server, origin)
        server.users += 1
        try:
            async with AsyncExitStack() as taken:
                for turns in (server.turns, share, self._all):
                    try:
                        await asyncio.wait_for(turns.acquire(), self._bounds.slot_wait_s)
                    except TimeoutError:
                        raise self._none(server, origin) from None
                    taken.callback(turns.release)
                self._look(server, origin)
                server.refused = 0
                # while it is away, this one asks, and the others fail
                server.ask_at = self._clock() + self._bounds.total_timeout_s
                yield
        finally:
            server.users -= 1

    def answered(self, origin: Origin) -> None:
        """It is there."""
        self._server(origin).failures = 0

    def record_no_response(self, origin: Origin) -> None:
        """It did not answer."""
        server = self._server(origin)
        server.failures += 1
        if server.failures >= _AWAY:
            server.ask_at = self._clock() + exponential_backoff_s(
                1.0, server.failures - _AWAY + 1, _LONGEST_PAUSE_S
            )

    def record_retry_after(self, origin: Origin, seconds: float) -> None:
        """It asked for so much patience."""
        server = self._server(origin)
        server.patience_until = max(
            server.patience_until, self._clock() + min(seconds, MAX_HOST_WAIT_S)
        )

    def _look(self, server: _Server, origin: Origin) -> None:
        now = self._clock()
        if now < server.patience_until:
            wait_s = min(server.patience_until - now, MAX_EVENT_WAIT_S)
            raise NotScheduledError(f"{origin[1]} asked for patience", retry_after_s=wait_s)
        if server.failures >= _AWAY and now < server.ask_at:
            raise RetryableError(
                f"{origin[1]} does not answer", first_wait_s=UNAVAILABLE_RETRY_DELAY_S
            )

    def _none(self, server: _Server, origin: Origin) -> NotScheduledError:
        server.refused += 1
        wait_s = min(_COME_BACK_S + server.refused / _REFUSED_A_SECOND, _LONGEST_COME_BACK_S)
        return NotScheduledError(f"{origin[1]}: others are fetched first", retry_after_s=wait_s)

    def _server(self, origin: Origin) -> _Server:
        found = self._servers.get(origin)
        if found is None:
            if len(self._servers) >= _MOST_SERVERS:
                self._forget()
            found = self._servers[origin] = _Server(asyncio.Semaphore(self._bounds.max_per_origin))
        return found

    def _forget(self) -> None:
        """Let go of servers that nothing is known of but that they were there."""
        now = self._clock()
        for origin, server in list(self._servers.items()):
            if (
                not server.users
                and not (server.failures and now < server.ask_at + MAX_EVENT_WAIT_S)
                and now >= server.patience_until
            ):
                del self._servers[origin]
