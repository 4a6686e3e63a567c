"""What a process says of the components it works with, written down for whoever asks from another process.

Invariant: that a component is away is said by a process that runs. It says so again and again, takes it back when it ends, and where it was
killed its word lapses, see `pipeline.store.operations.LAPSES_S`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from pipeline.errors import LivedexError
from pipeline.store.operations import LAPSES_S, Operations

log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[str, str | None], None]
SAID_AGAIN_S = LAPSES_S / 4
_WRITE_AGAIN_S = 1.0
_LAST_WORD_S = 2.0


@asynccontextmanager
async def health_teller(operations: Operations) -> AsyncIterator[Tell]:
    """A function that writes down how a component is, without holding up who tells."""
    words = _Words(operations)
    writer = asyncio.create_task(words.write())
    try:
        yield words.tell
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        await words.take_back()


class _Words:
    """The last word on each component, kept until it is written: what came back while the database was away would be down for ever."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._unwritten: dict[str, str | None] = {}
        self._down: dict[str, str] = {}
        self._told = asyncio.Event()

    def tell(self, component: str, reason: str | None) -> None:
        """Note why a component is away, or, with None, that it works."""
        if reason is None:
            self._down.pop(component, None)
        else:
            self._down[component] = reason
        self._unwritten[component] = reason
        self._told.set()

    async def write(self) -> None:
        """Write words down, for ever."""
        failing = False
        while True:
            try:
                async with asyncio.timeout(SAID_AGAIN_S):
                    await self._told.wait()
            except TimeoutError:
                self._unwritten = {**self._down, **self._unwritten}
            while self._unwritten:
                component, reason = self._unwritten.popitem()
                try:
                    await self._operations.set_health(component, ok=reason is None, detail=reason)
                    failing = False
                except LivedexError as exc:
                    self._unwritten.setdefault(component, reason)  # not over a newer one
                    if not failing:
                        log.warning("the health of the %s is not written down yet: %s", component, exc)
                    failing = True
                    await asyncio.sleep(_WRITE_AGAIN_S)
            self._told.clear()

    async def take_back(self) -> None:
        """Say nothing against anybody any more; whoever else finds a component away says so again."""
        try:
            async with asyncio.timeout(_LAST_WORD_S):
                for component in self._down:
                    await self._operations.set_health(component, ok=True)
        except (LivedexError, TimeoutError) as exc:
            log.info("that the %s is away is left to lapse: %s", " and the ".join(self._down), exc or type(exc).__name__)
