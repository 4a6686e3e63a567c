"""How many rounds of gathered texts may be under way before the next ones wait and grow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_HELD_S = 5.0


class RoundLimiter:
    """A slot is held from a round's start to its first answer, and 5 s at most.

    After that the round may still search for a text that spoils it, or try that text for a minute:
    others need not wait for it.

    Args:
        count: slots, >= 1.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    async def take(self) -> Callable[[], None]:
        """Wait for a slot; what gives it back, to be called any number of times."""
        await self._free.acquire()
        timer = asyncio.get_running_loop().call_later(_HELD_S, lambda: release())
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                timer.cancel()
                self._free.release()

        return release
