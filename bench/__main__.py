"""`python -m bench [PART …]`: run the benchmarks, each against its baseline of the same run."""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging

from livedex.cli.running import run_event_loop

PARTS = ("load", "edits", "insert", "freshness", "search", "cranfield", "start")
LONG = (
    "kills",
    "tenants",
    "written",
    "receiver",
    "openapi",
    "kafka-replay",
    "kafka-kills",
    "kafka-outages",
    "kafka-embedder-outage",
    "kafka-freshness",
    "kafka-throughput",
    "kafka-backlog",
    "freezes",
    "fairness",
    "growing-log",
    "database-chaos",
    "kafka-database-chaos",
    "strangers",
    "attacks",
)
"""Run only where they are named."""
NUMBERS = {
    "kills": "how often something is killed, or ended",
    "files": "of the corpus that are used; all, if not given",
    "documents": "that are published",
    "seconds": "that the embedder is away, or writes come in",
    "operations": "of all tenants, clients or runs together",
}


def main() -> None:
    """Run the parts that are named, or all but the long ones."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=f"Parts: {', '.join(PARTS)}; only where named: {', '.join(LONG)}.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    for name, meaning in NUMBERS.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=meaning)
    given = vars(parser.parse_args())
    wanted = given.pop("parts") or list(PARTS)
    numbers = {name: value for name, value in given.items() if value is not None}
    if unknown := [part for part in wanted if part not in PARTS + LONG]:
        parser.error(
            f"no benchmark is called {' '.join(unknown)}: choose of {' '.join(PARTS + LONG)}"
        )
    # it warns at every try while a server is away on purpose
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    for part in wanted:
        measure = importlib.import_module(f"bench.{part.replace('-', '_')}").run
        if unknown := [
            name for name in numbers if name not in inspect.signature(measure).parameters
        ]:
            parser.error(f"{part} takes no --{unknown[0]}")
        run_event_loop(measure(**numbers))


main()
