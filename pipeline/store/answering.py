"""Whether a server still answers on a connection, asked where something on it took too long."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

_RESPONSE_TIMEOUT_S = 2.0


async def is_responsive(connection: asyncpg.pool.PoolConnectionProxy[Any]) -> bool:
    """Return whether the server ends what was cancelled on a connection, and answers on it: one
    that does not is frozen or away, and not slow.
    """
    try:
        async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
            await connection.fetchval("select 1")
    except asyncpg.PostgresError:
        return True  # that the transaction failed is an answer
    except (TimeoutError, OSError, asyncpg.InterfaceError):
        return False
    return True
