"""Limit the time for the rollback of a failed transaction: the driver itself waits for a stalled
server without a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

ROLLBACK_GRACE_S = 2.0
"""Time for the server to roll back before its connection is closed."""


@asynccontextmanager
async def terminate_if_stuck(
    connection: asyncpg.pool.PoolConnectionProxy[Any],
) -> AsyncIterator[None]:
    """Close a pooled connection that is not returned to its pool within `ROLLBACK_GRACE_S` after
    the block failed or was cancelled.

    Args:
        connection: that the block uses.
    """
    try:
        yield
    except BaseException:
        asyncio.get_running_loop().call_later(ROLLBACK_GRACE_S, _close, connection)
        raise


def _close(connection: asyncpg.pool.PoolConnectionProxy[Any]) -> None:
    with suppress(asyncpg.InterfaceError):  # it was returned to the pool
        connection.terminate()
