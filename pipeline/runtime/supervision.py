"""Restart background work after unexpected errors."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from livedex.pipeline.runtime.backoff import SUPERVISION

log = logging.getLogger(__name__)

_HEALTHY_S = 60.0  # work that ran so long restarts after the first delay


async def run_supervised(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run work until it returns or is cancelled; after an error, log it, wait and restart it.

    Args:
        work: called again after each error.
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
            log.exception("%s ended by an error and restarts in %.0f s", name, pause_s)
        await asyncio.sleep(pause_s)
