"""`python -m bench [PART …]`: run the benchmarks, each against its baseline of the same run."""

from __future__ import annotations

import importlib
import sys

from pipeline.cli.running import run

PARTS = ("load", "edits", "insert", "freshness", "search", "cranfield", "start")
LONG = ("kills",)
"""Run only where they are named."""


def main() -> None:
    """Run the parts that are named, or all but the long ones."""
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [part for part in wanted if part not in PARTS + LONG]
    if unknown:
        sys.exit(f"no benchmark is called {' '.join(unknown)}: choose of {' '.join(PARTS + LONG)}")
    for part in wanted:
        run(importlib.import_module(f"bench.{part}").run())


main()
