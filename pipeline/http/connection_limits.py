"""The bounds on connections to the API: how many there are, and how long and how large each part of
a request may be.

Nobody is known before a request is read, so these hold for everybody. Where there is no room, the
connection that waits the longest for its client is closed for the new one, so that the service
stays reachable however many are held open.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import resource
from typing import Literal, Protocol

Phase = Literal["idle", "head", "body", "answer"]

MAX_CONNECTIONS = 512
MAX_HEADER_BYTES = 65_536
MAX_HEADERS = 128
MAX_PIPELINED_REQUESTS = 16
FIRST_BYTE_TIMEOUT_S = 10.0
HEADER_TIMEOUT_S = 10.0
BODY_GRACE_S = 10.0
MIN_BODY_BYTES_PER_S = 32_768
UNREAD_BODY_S = 5.0
# longer than clients and proxies keep a connection: what is sent while we close it gets no answer
AUTHENTICATED_IDLE_TIMEOUT_S = 75.0
ANONYMOUS_IDLE_TIMEOUT_S = 10.0
STALLED_RESPONSE_TIMEOUT_S = 30.0
BACKLOG = 64
_RESERVED_FILES = 64
_TICK_S = 1.0


class ClientConnection(Protocol):
    """A connection that is held open.

    Attributes:
        phase: what it waits for; everything but `answer` waits for the client.
        since: when that began, by the loop's clock.
        address: of the client.
    """

    phase: Phase
    since: float
    address: str

    def overdue(self, now: float) -> bool:
        """Return whether its client took too long."""
        ...

    def end(self) -> None:
        """Answer that it took too long, where that makes sense, and close."""
        ...


def connection_limit() -> int:
    """Return how many connections fit the limit on open files, beside what is open already and
    what else may be opened.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    try:
        opened = len(os.listdir("/dev/fd"))
    except OSError:
        opened = 64
    return max(8, min(MAX_CONNECTIONS, limit - opened - BACKLOG - _RESERVED_FILES))


class ConnectionLimiter:
    """Counts connections, and ends those whose clients take too long.

    Args:
        most: connections at once; half of them from one address, except from loopback, where
            proxies are.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: dict[ClientConnection, None] = {}
        self._addresses: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    def enter(self, connection: ClientConnection) -> bool:
        """Count a new connection, making room for it where need be; return False where there is
        none.
        """
        of_address = self._addresses.get(connection.address, 0)
        if of_address >= max(1, self.most // 2) and not _is_near(connection.address):
            if not self._make_room(connection.address):
                return False
        elif len(self._held) >= self.most and not self._make_room():
            return False
        self._held[connection] = None
        self._addresses[connection.address] = self._addresses.get(connection.address, 0) + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        return True

    def leave(self, connection: ClientConnection) -> None:
        """Forget a connection; one that was never counted changes nothing."""
        if connection not in self._held:
            return
        del self._held[connection]
        left = self._addresses[connection.address] - 1
        if left:
            self._addresses[connection.address] = left
        else:
            del self._addresses[connection.address]

    def _make_room(self, address: str | None = None) -> bool:
        """End the connection that has waited the longest for its client."""
        waiting = [
            each
            for each in self._held
            if each.phase != "answer" and address in (None, each.address)
        ]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda each: each.since)
        self.leave(oldest)
        oldest.end()
        return True

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        for each in [each for each in self._held if each.overdue(now)]:
            each.end()
        self._timer = (
            asyncio.get_running_loop().call_later(_TICK_S, self._tick) if self._held else None
        )


def _is_near(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True  # a socket of this machine
