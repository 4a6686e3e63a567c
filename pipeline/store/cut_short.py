"""What was cut short on a connection ends soon, also where the server stands still: the driver
would wait for it to roll back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

ROLLBACK_GRACE_S = 2.0
"""For a server to take back what was cut short, before its connection is closed."""


@asynccontextmanager
async def terminate_if_stuck(
    connection: asyncpg.pool.PoolConnectionProxy[Any],
) -> AsyncIterator[None]:
    """Close a connection of a pool where it is not given back within `GRACE_S` after the block
    failed or was cancelled.
    """
    try:
        yield
    except BaseException:
        asyncio.get_running_loop().call_later(ROLLBACK_GRACE_S, _close, connection)
        raise


def _close(connection: asyncpg.pool.PoolConnectionProxy[Any]) -> None:
    with suppress(asyncpg.InterfaceError):  # it was given back
        connection.terminate()
