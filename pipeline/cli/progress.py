"""How far the first load is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from pipeline.backlog import Backlog
from pipeline.errors import LivedexError

_MANY = 20  # fewer than this is no load worth a bar
_EVERY_S = 0.5
_LINES_EVERY = 10  # looks between two plain lines


async def show_progress(backlog: Backlog, connectors: Sequence[Any]) -> None:
    """Show how many of the documents under way are done, until all are."""
    looks, most = 0, 0
    bar: Any = None
    try:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                left = sum(stage.waiting for stage in (await backlog.waiting()).values())
            except LivedexError:
                continue
            scanned = all(connector.ready.is_set() for connector in connectors)
            if left < _MANY and scanned and not most:
                return
            most = max(most, left)
            bar = _draw(bar, most - left, most) if sys.stderr.isatty() else bar
            if bar is None and looks % _LINES_EVERY == 0:
                print(f"loading: {left} events on the way", file=sys.stderr, flush=True)
            looks += 1
            if scanned and left == 0:
                print("loaded: everything found at the start is indexed", file=sys.stderr, flush=True)
                return
    finally:
        if bar is not None:
            bar.stop()


def _draw(bar: Any, done: int, total: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if bar is None:
        bar = Progress(
            TextColumn("indexing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
        )
        bar.add_task("indexing", total=total)
        bar.start()
    bar.update(bar.task_ids[0], total=total, completed=done)
    return bar
