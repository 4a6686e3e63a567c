"""How long a session of a process that stands still, or cannot be reached, may keep anything from
others.

A frozen process, or one behind a network that was cut, says nothing: its connections look alive for
two hours. So the server ends a transaction that waits for its client, which frees its locks, and
both ends ask each other on idle connections.
"""

from __future__ import annotations

import socket
from typing import Any

_IDLE_S, _INTERVAL_S, _COUNT = 10, 5, 3
UNREACHABLE_AFTER_S = _IDLE_S + _INTERVAL_S * _COUNT
"""After so many seconds without an answer the other end counts as gone."""

SESSION_SETTINGS: dict[str, str] = {
    # no transaction waits for anything but the database
    "idle_in_transaction_session_timeout": "20s",
    "tcp_keepalives_idle": str(_IDLE_S),
    "tcp_keepalives_interval": str(_INTERVAL_S),
    "tcp_keepalives_count": str(_COUNT),
}
"""For each session of the application, at connect."""

_OPTIONS = (
    ("TCP_KEEPIDLE", _IDLE_S),
    ("TCP_KEEPALIVE", _IDLE_S),
    ("TCP_KEEPINTVL", _INTERVAL_S),
    ("TCP_KEEPCNT", _COUNT),
    ("TCP_USER_TIMEOUT", UNREACHABLE_AFTER_S * 1000),
)


def enable_tcp_keepalive(connection: Any) -> None:
    """Let the operating system find out whether the server behind a connection can still be
    reached.

    Args:
        connection: of asyncpg; one on a socket of this machine is left as it is.
    """
    found = connection._transport.get_extra_info("socket")  # there is no public way to it
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):  # each system has its own
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
