"""Time limits for sessions of frozen or unreachable processes, so that they do not hold locks.

The connections of a frozen process, or of one behind a broken network, look alive for two hours. So
the server ends transactions that wait for their client, which frees their locks, and both ends send
TCP keepalives.
"""

from __future__ import annotations

import socket
from typing import Any

_IDLE_S, _INTERVAL_S, _COUNT = 10, 5, 3
UNREACHABLE_AFTER_S = _IDLE_S + _INTERVAL_S * _COUNT
"""After this many seconds without a response, a connection is considered dead."""

SESSION_SETTINGS: dict[str, str] = {
    # transactions wait for nothing but the database
    "idle_in_transaction_session_timeout": "20s",
    "tcp_keepalives_idle": str(_IDLE_S),
    "tcp_keepalives_interval": str(_INTERVAL_S),
    "tcp_keepalives_count": str(_COUNT),
}
"""Settings of each session of the application."""

_OPTIONS = (
    ("TCP_KEEPIDLE", _IDLE_S),
    ("TCP_KEEPALIVE", _IDLE_S),
    ("TCP_KEEPINTVL", _INTERVAL_S),
    ("TCP_KEEPCNT", _COUNT),
    ("TCP_USER_TIMEOUT", UNREACHABLE_AFTER_S * 1000),
)


def enable_tcp_keepalive(connection: Any) -> None:
    """Enable TCP keepalives on a connection.

    Args:
        connection: of asyncpg; Unix sockets stay unchanged.
    """
    found = connection._transport.get_extra_info("socket")  # asyncpg has no public access to it
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _OPTIONS:
        if hasattr(socket, name):  # the options differ between systems
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
