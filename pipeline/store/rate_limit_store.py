"""How much each credential asked lately, counted over all processes.

Every method may raise OutageError and RetryableError.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

SLOT_LEASE_S = 20.0
"""A process that renewed nothing for so long is gone, and its requests with it."""


class RateLimitStore:
    """What this process took of the limits that all share.

    Args:
        database: where they are counted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = secrets.randbits(62)

    async def take_rate(self, credential: str, per_minute: int, wanted: int) -> tuple[int, float]:
        """Take requests of this minute.

        Args:
            per_minute: how many a credential has, >= 1; so many may come at once.
            wanted: requests at most, >= 1.

        Returns:
            How many were had, 0 to `wanted`, and how many are left, which may be a fraction.
        """
        async with self._database.system("rate limit") as connection:
            row = await connection.fetchrow(sql("take_rate"), credential, per_minute, wanted)
        return int(row["granted"]), float(row["tokens"])

    async def take_slot(self, credential: str, most: int) -> bool:
        """Take room for one more request under way, if all processes together have fewer than
        `most`.
        """
        async with self._database.system("concurrency limit") as connection:
            return bool(
                await connection.fetchval(
                    sql("take_slot"), credential, self._holder, most, SLOT_LEASE_S
                )
            )

    async def release_slots(self, slots: Mapping[str, int]) -> None:
        """Give room back, so many of each credential."""
        async with self._database.system("concurrency limit") as connection:
            await connection.execute(
                sql("release_slots"), list(slots), list(slots.values()), self._holder
            )

    async def renew_slots(self) -> None:
        """Say that this process lives."""
        async with self._database.system("concurrency limit") as connection:
            await connection.execute(sql("renew_slots"), self._holder)
