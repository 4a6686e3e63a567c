"""The lease behind a process's claims: one row, renewed while anything is claimed.

Invariant: once a lease has run out its number is never used again. A process that wakes up after
that gets a new number, so whatever it claimed before counts as lost, whether or not somebody else
has taken it.
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
_SAFETY_MARGIN_S = 1.0  # before its end a lease is not relied on any more


def boot_time_s() -> float:
    """Seconds since some moment, counted on while the machine sleeps where the system can tell."""
    return (
        time.clock_gettime(time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic()
    )


class ClaimLease:
    """The lease of this process; nothing is written before `hold` is called.

    Args:
        lease_s: seconds that others wait at most for a process that stands still, > 1.
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
        """The number that others respect at this moment; None while there is none."""
        return self._number if boot_time_s() < self._valid_until else None

    async def hold(self) -> int:
        """Return a number whose lease lasts for a while.

        Raises:
            OutageError, RetryableError: as the database does.
        """
        async with self._turn:
            if boot_time_s() > self._valid_until - self.lease_s / 2:
                await self._renew()
            return self._number

    async def renew_forever(self, is_needed: asyncio.Event) -> None:
        """Renew the lease while it is needed; log an error and try again."""
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
                    log.warning("claims of texts to embed are not renewed: %s", exc)
                failing = True
            except Exception:
                log.exception("claims of texts to embed are not renewed")

    def abandon(self) -> None:
        """Take a new number the next time: what was claimed is anybody's once the lease has run
        out.
        """
        self._valid_until = 0.0
        self._number = 0

    async def end(self) -> None:
        """Give the lease back; where the database is away it runs out."""
        number, self._number = self._number, 0
        self._valid_until = 0.0
        if number:
            try:
                async with asyncio.timeout(2), self._database.system("end claims") as connection:
                    await connection.execute(sql("end_holder"), number)
            except (RetryableError, TimeoutError) as exc:
                log.info(
                    "the claims of this process are left to run out: %s", exc or type(exc).__name__
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
