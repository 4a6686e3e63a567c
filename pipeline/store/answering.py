"""Tell a slow statement from an unresponsive server, after a statement took too long."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

_RESPONSE_TIMEOUT_S = 2.0


async def is_responsive(connection: asyncpg.pool.PoolConnectionProxy[Any]) -> bool:
    """Return whether the server answers on a connection within 2 seconds; if not, it is frozen or
    unreachable, not slow.

    Args:
        connection: on which a statement was cancelled.
    """
    try:
        async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
            await connection.fetchval("select 1")
    except asyncpg.PostgresError:
        return True  # an error (the transaction failed) is an answer, too
    except (TimeoutError, OSError, asyncpg.InterfaceError):
        return False
    return True
