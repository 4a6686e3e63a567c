"""Request rate and concurrency of each credential, counted over all processes.

Every method may raise OutageError and RetryableError.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

SLOT_LEASE_S = 20.0
"""Slots that a process did not renew for this long are free again: the process has ended."""


class RateLimitStore:
    """The share of this process in the limits that all processes share.

    Args:
        database: that holds the counts.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._holder = secrets.randbits(62)

    async def take_rate(self, credential: str, per_minute: int, wanted: int) -> tuple[int, float]:
        """Take tokens from the token bucket of a credential.

        Args:
            credential: id of the API key or token.
            per_minute: refill rate and size of the bucket, requests, >= 1.
            wanted: maximum number of tokens to take, >= 1.

        Returns:
            The tokens taken, 0 to `wanted`, and the tokens left, possibly a fraction.
        """
        async with self._database.system("rate limit") as connection:
            row = await connection.fetchrow(sql("take_rate"), credential, per_minute, wanted)
        return int(row["granted"]), float(row["tokens"])

    async def take_slot(self, credential: str, most: int) -> bool:
        """Return whether a slot for one more concurrent request was taken.

        Args:
            credential: id of the API key or token.
            most: maximum number of concurrent requests over all processes, >= 1.
        """
        async with self._database.system("concurrency limit") as connection:
            return bool(
                await connection.fetchval(
                    sql("take_slot"), credential, self._holder, most, SLOT_LEASE_S
                )
            )

    async def release_slots(self, slots: Mapping[str, int]) -> None:
        """Release slots.

        Args:
            slots: number of slots by credential.
        """
        async with self._database.system("concurrency limit") as connection:
            await connection.execute(
                sql("release_slots"), list(slots), list(slots.values()), self._holder
            )

    async def renew_slots(self) -> None:
        """Renew the slots of this process."""
        async with self._database.system("concurrency limit") as connection:
            await connection.execute(sql("renew_slots"), self._holder)
