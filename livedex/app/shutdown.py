"""End a process that was told to stop, and cannot.

Draining is bounded step by step, but what a step waits for may hang in a way that nobody foresaw: a
frozen server, a disk that does not answer, a thread that never returns. Ending without it loses
nothing: what is not acknowledged is delivered again, and every stage finds what is done.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from typing import Any

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 42.0
"""Seconds from the first signal to the end at the latest; containers get 45."""
BACKGROUND_TIMEOUT_S = 2.0
ROLE_TIMEOUT_S = 8.0
"""Seconds for what runs beside the stages: it must not use up their share of the grace."""
_LAST_RESORT_S = 2.0

NOT_DRAINED = 1
FORCED = 130


def stop_signal(grace_s: float = SHUTDOWN_TIMEOUT_S) -> asyncio.Event:
    """Return an event that the first SIGINT or SIGTERM sets; a second one ends the process at once,
    and so does the end of the grace.

    Args:
        grace_s: seconds that the process has for draining, > 0.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_first() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            # also while the event loop is held up
            signal.signal(number, lambda *_: os._exit(FORCED))
        start_deadline(grace_s)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_first)
    return stop


def start_deadline(grace_s: float, end: Callable[[int], object] = os._exit) -> threading.Timer:
    """Start a timer that ends the process, in a thread that nothing in the event loop can hold up.

    Args:
        grace_s: seconds from now on.
        end: called with the status.
    """

    def give_up() -> None:
        print(
            f"stopping took longer than {grace_s:g} s and is given up: what was not finished "
            "is done at the next start",
            file=sys.stderr,
            flush=True,
        )
        end(NOT_DRAINED)

    timer = threading.Timer(grace_s, give_up)
    timer.name, timer.daemon = "shutdown deadline", True
    timer.start()
    if end is os._exit:  # for an interpreter that no thread gets hold of any more
        faulthandler.dump_traceback_later(grace_s + _LAST_RESORT_S, exit=True)
    return timer


async def end_tasks(
    tasks: Collection[asyncio.Task[Any]], seconds: float, *, asked_s: float = 0.0
) -> None:
    """Cancel tasks and wait until they have ended; what a hanging dependency holds on to is named
    and left behind.

    Args:
        tasks: to be ended.
        seconds: to wait at most after the cancellation.
        asked_s: to wait for their own end before, where they were asked to end.
    """
    left = set(tasks)
    if left and asked_s:
        _, left = await asyncio.wait(left, timeout=asked_s)
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=seconds)
    for task in left:
        log.warning("%s does not end and is left behind", task.get_name())
