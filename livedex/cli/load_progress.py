"""Show how far the first load is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from livedex.app.initial_load import InitialLoad

_DRAWN_EVERY_S = 0.5
_LINE_EVERY_S = 5.0


async def show_progress(load: InitialLoad) -> None:
    """Show how many documents of the first load are indexed, until all are; nothing where all were
    at the start.
    """
    bar, told_at = _ProgressBar(load) if sys.stderr.isatty() else None, float("-inf")
    try:
        while not load.is_over:
            await asyncio.sleep(_DRAWN_EVERY_S)
            if load.is_over or load.found == 0 or load.done >= load.found:
                continue
            if bar is not None:
                bar.draw()
            elif time.monotonic() - told_at >= _LINE_EVERY_S:
                told_at = time.monotonic()
                print(f"indexing: {format_progress(load)}", file=sys.stderr, flush=True)
    finally:
        if bar is not None:
            bar.stop()
    if load.found > load.at_start:
        print(format_summary(load), file=sys.stderr, flush=True)


def format_progress(load: InitialLoad) -> str:
    """Return how far a load is, as in `1,204 of 2,030 documents, 85/s, 12 s left`."""
    said = f"{load.done:,} of {load.found:,} documents"
    rate = (load.done - load.at_start) / load.seconds if load.seconds > 0 else 0.0
    if rate <= 0:
        return said
    shown = f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
    return f"{said}, {shown}/s, {_duration((load.found - load.done) / rate)} left"


def format_summary(load: InitialLoad) -> str:
    """Return the line that ends a load, as in `indexed: 2,030 documents, 28,113 passages, 24 s`."""
    documents = f"{load.found:,} document{'' if load.found == 1 else 's'}"
    passages = f"{load.passages:,} passage{'' if load.passages == 1 else 's'}"
    return f"indexed: {documents}, {passages}, {_duration(load.seconds)}"


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class _ProgressBar:
    """A bar on the terminal that goes when the load is over."""

    def __init__(self, load: InitialLoad) -> None:
        self._load = load
        self._shown: Any = None

    def draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        if self._shown is None:
            self._shown = Progress(
                TextColumn("indexing"),
                BarColumn(),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._shown.add_task("", total=self._load.found)
            self._shown.start()
        self._shown.update(
            self._shown.task_ids[0],
            description=format_progress(self._load),
            total=self._load.found,
            completed=self._load.done,
        )

    def stop(self) -> None:
        if self._shown is not None:
            self._shown.stop()
