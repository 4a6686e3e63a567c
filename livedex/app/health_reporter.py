"""Copy the health of this process into the database, for whoever asks from another process.

Invariant: that a component is unavailable is said by a process that runs. It says so again and
again, takes it back when it ends, and where it was killed its word expires, see
`livedex.pipeline.store.installation_status.HEALTH_EXPIRES_S`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from livedex.pipeline.errors import LivedexError, OutageError
from livedex.pipeline.runtime.health import ProcessHealth, ReportHealth
from livedex.pipeline.runtime.supervision import run_supervised
from livedex.pipeline.store.installation_status import HEALTH_EXPIRES_S, InstallationStatus

__all__ = ["ReportHealth", "open_health_reporter"]

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = HEALTH_EXPIRES_S / 4
PROBE_INTERVAL_S = 3.0  # so soon `/readyz` tells that nothing can be written, where nobody tries
_RETRY_INTERVAL_S = 1.0
_CLEAR_TIMEOUT_S = 2.0
DATABASE = "database"


@asynccontextmanager
async def open_health_reporter(operations: InstallationStatus) -> AsyncIterator[ProcessHealth]:
    """The health of this process, copied into the database without holding up who tells."""
    words = _HealthReporter(operations)
    writer = asyncio.create_task(
        run_supervised(words.write, "copy the health"), name="copy the health"
    )
    try:
        yield words.health
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        await words.take_back()


class _HealthReporter:
    """The last word on each component, kept until it is written: a recovery during a database
    outage would otherwise be lost.
    """

    def __init__(self, operations: InstallationStatus) -> None:
        self._operations = operations
        self._unwritten: dict[str, str | None] = {}
        self._told = asyncio.Event()
        self.health = ProcessHealth(self._note)

    def _note(self, component: str, reason: str | None) -> None:
        self._unwritten[component] = reason
        self._told.set()

    async def write(self) -> None:
        """Write words down, for ever, and find out in between whether the database takes writes."""
        failing, said = False, time.monotonic()
        while True:
            try:
                async with asyncio.timeout(min(PROBE_INTERVAL_S, REPORT_INTERVAL_S)):
                    await self._told.wait()
            except TimeoutError:
                if time.monotonic() - said >= REPORT_INTERVAL_S:
                    said = time.monotonic()
                    self._unwritten = {**self.health.down, **self._unwritten}
                await self._probe()
            while self._unwritten:
                component, reason = self._unwritten.popitem()
                if await self._written(component, reason, failing):
                    failing = False
                else:
                    self._unwritten.setdefault(component, reason)  # not over a newer one
                    failing = True
                    await asyncio.sleep(_RETRY_INTERVAL_S)
            self._told.clear()

    async def _written(self, component: str, reason: str | None, failing: bool) -> bool:
        """Write one word down.

        What the database takes shows that it works, whatever the word says of it.
        """
        is_over = component == DATABASE
        try:
            await self._operations.set_health(
                component, ok=is_over or reason is None, detail=None if is_over else reason
            )
        except Exception as exc:
            if not isinstance(exc, LivedexError):
                log.exception(
                    "the health of the %s could not be written down; it is tried again", component
                )
            elif not failing:
                log.warning("the health of the %s is not written down yet: %s", component, exc)
            if (
                isinstance(exc, OutageError)
                and exc.component == DATABASE
                and DATABASE not in self.health.down
            ):
                self.health(DATABASE, exc.cause)
            return False
        if DATABASE in self.health.down:
            log.warning("the database takes changes again")
            self.health(DATABASE, None)
        return True

    async def _probe(self) -> None:
        """Find out whether the database takes writes, where nobody has told otherwise."""
        try:
            if DATABASE not in self.health.down:
                await self._operations.probe_writes()
        except OutageError as exc:
            self.health(DATABASE, exc.cause)
        except Exception:
            log.exception("the database could not be probed; it is tried again")

    async def take_back(self) -> None:
        """Clear all problems; a component that still sees one reports it again."""
        try:
            async with asyncio.timeout(_CLEAR_TIMEOUT_S):
                for component in self.health.down:
                    await self._operations.set_health(component, ok=True)
        except (LivedexError, TimeoutError) as exc:
            log.info(
                "that the %s is away is left to lapse: %s",
                " and the ".join(self.health.down),
                exc or type(exc).__name__,
            )
