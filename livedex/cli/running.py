"""Run a program's coroutine on the fastest loop there is."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_SWITCH_S = 0.0005
"""How long a thread may hold the interpreter while the event loop waits for it: with the default of
5 ms, a search takes ten times as long
while a document is chunked in a thread, since each of its steps waits that long.
"""


def freeze_started() -> None:
    """Leave what a process has when it is ready out of every later garbage collection, which would
    stop all of its requests for up to 0.1 s.
    """
    gc.collect()
    gc.freeze()


def run_event_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end; uvloop where it is installed."""
    sys.setswitchinterval(_SWITCH_S)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
