"""Limits on connections to the API: their number, and the size and duration of each part of a
request.

The limits apply to all clients, because clients are unknown before their request is read. If the
maximum number is reached, the connection that has waited longest for its client is closed for a new
one, so that idle connections cannot block the service.
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
# longer than the idle timeouts of clients and proxies, or a request sent during the close is lost
AUTHENTICATED_IDLE_TIMEOUT_S = 75.0
ANONYMOUS_IDLE_TIMEOUT_S = 10.0
STALLED_RESPONSE_TIMEOUT_S = 30.0
BACKLOG = 64
_RESERVED_FILES = 64
_TICK_S = 1.0


class ClientConnection(Protocol):
    """An open connection.

    Attributes:
        phase: all phases but `answer` wait for the client.
        since: start of the phase, by the loop's clock.
        address: of the client.
    """

    phase: Phase
    since: float
    address: str

    def overdue(self, now: float) -> bool:
        """Return whether the client exceeded the time limit of the phase."""
        ...

    def end(self) -> None:
        """Send a timeout response if a request has begun, and close."""
        ...


def connection_limit() -> int:
    """Return the maximum number of connections that the limit on open files permits."""
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
        most: maximum number of connections; one address may use half of them, except loopback,
            which proxies use.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: dict[ClientConnection, None] = {}
        self._addresses: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    def enter(self, connection: ClientConnection) -> bool:
        """Count a new connection, closing another one if necessary; return False if none can be
        closed.
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
        """Stop counting a connection; unknown ones are ignored."""
        if connection not in self._held:
            return
        del self._held[connection]
        left = self._addresses[connection.address] - 1
        if left:
            self._addresses[connection.address] = left
        else:
            del self._addresses[connection.address]

    def _make_room(self, address: str | None = None) -> bool:
        """End the connection that has waited longest for its client."""
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
        return True  # a Unix socket
