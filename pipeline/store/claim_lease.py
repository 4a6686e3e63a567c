"""The lease behind a process's claims: one row, renewed while the process holds claims.

Invariant: the number of an expired lease is never used again. A process that resumes after the
expiry gets a new number, so its earlier claims count as lost even if no other process took them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

log = logging.getLogger(__name__)

LEASE_S = 15.0
_SAFETY_MARGIN_S = 1.0  # a process stops relying on its lease this long before it expires


def boot_time_s() -> float:
    """Return a monotonic time in seconds that, where the system supports it, includes suspend."""
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


class ClaimLease:
    """The lease of this process; the first call of `hold` writes it.

    Args:
        database: that holds the leases.
        lease_s: seconds after which other processes may take the claims of a stalled process, > 1.
    """

    def __init__(self, database: Database, *, lease_s: float = LEASE_S) -> None:
        self._database = database
        self.lease_s = lease_s
        self._turn = asyncio.Lock()
        self._number = 0
        self._valid_until = 0.0
        self.numbers: list[int] = []

    @property
    def number(self) -> int | None:
        """Return the number of the valid lease; None: there is none."""
        return self._number if boot_time_s() < self._valid_until else None

    async def hold(self) -> int:
        """Return the number of a lease that stays valid for at least half of `lease_s`.

        Raises:
            OutageError, RetryableError: as the database does.
        """
        async with self._turn:
            if boot_time_s() > self._valid_until - self.lease_s / 2:
                await self._renew()
            return self._number

    async def renew_forever(self, is_needed: asyncio.Event) -> None:
        """Renew the lease while it is needed; log errors and retry.

        Args:
            is_needed: set while the process holds claims.
        """
        failing = False
        while True:
            await is_needed.wait()
            await asyncio.sleep(self.lease_s / 4)
            try:
                async with self._turn:
                    if is_needed.is_set():
                        await self._renew()
                failing = False
            except RetryableError as exc:
                if not failing:
                    log.warning("renewing the embedding claims failed: %s", exc)
                failing = True
            except Exception:
                log.exception("renewing the embedding claims failed")

    def abandon(self) -> None:
        """Use a new number from the next `hold` on; other processes may take the present claims
        when the lease expires.
        """
        self._valid_until = 0.0
        self._number = 0

    async def end(self) -> None:
        """Delete the lease; if the database is unavailable, the lease expires by itself."""
        number, self._number = self._number, 0
        self._valid_until = 0.0
        if number:
            try:
                async with asyncio.timeout(2), self._database.system("end claims") as connection:
                    await connection.execute(sql("end_holder"), number)
            except (RetryableError, TimeoutError) as exc:
                log.info(
                    "the embedding claims of this process were not released and will expire: %s",
                    exc or type(exc).__name__,
                )

    async def _renew(self) -> None:
        begin = boot_time_s()
        async with self._database.system("renew claims") as connection:
            kept = self._number and await connection.fetchval(
                sql("renew_holder"), self._number, self.lease_s
            )
            if not kept:
                number = secrets.randbits(62) or 1
                await connection.execute(sql("begin_holder"), number, self.lease_s)
        if not kept:
            self._number = number
            self.numbers = [*self.numbers[-7:], number]
        self._valid_until = begin + self.lease_s - _SAFETY_MARGIN_S
