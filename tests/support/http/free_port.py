"""Ports that nothing listens on."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_port(following: int = 1) -> int:
    """Return the first of so many ports in a row that are free on the loopback address now."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                for offset in range(1, following):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            except (OSError, OverflowError):
                continue
            return port
