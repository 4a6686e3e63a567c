"""Running a command's work so that a signal ends it in order: what it started is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from livedex.cli.running import run_event_loop

T = TypeVar("T")


def run_command(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work in an event loop of its own.

    Raises:
        KeyboardInterrupt: it was interrupted (SIGINT).
        SystemExit: it was told to end (SIGTERM), with 143.
    """
    return run_event_loop(_ended_by_sigterm(work))


async def _ended_by_sigterm(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    told = False

    def end() -> None:
        nonlocal told
        told = True
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        return await work
    except asyncio.CancelledError:
        if told:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
