"""Keep background work of a process going, whatever ends it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from livedex.pipeline.runtime.backoff import SUPERVISION

log = logging.getLogger(__name__)

_HEALTHY_S = 60.0  # work that lasted so long begins again after the first pause


async def run_supervised(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run work until it returns or is cancelled; after an error that nobody foresaw, log it, wait,
    and begin again.

    Args:
        work: is called anew after each error.
        name: for the log.
    """
    failures = 0
    while True:
        begin = time.monotonic()
        try:
            return await work()
        except Exception:
            failures = 1 if time.monotonic() - begin > _HEALTHY_S else failures + 1
            pause_s = SUPERVISION.delay_s(failures)
            log.exception("%s ended by an error and begins again in %.0f s", name, pause_s)
        await asyncio.sleep(pause_s)
