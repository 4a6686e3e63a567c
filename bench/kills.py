"""`kill -9` of the whole process tree at random moments of a replay: nothing lost, nothing half,
nothing paid twice but what was in flight.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench import corpus as corpora
from bench.killing import replay_with_kills
from bench.table import print_table

FILES = 60


async def run(kills: int = 200) -> None:
    """Print the table of the kills."""
    corpus = corpora.load_corpus(FILES)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        result = await asyncio.to_thread(replay_with_kills, Path(folder), corpus, kills=kills)
    print_table(
        f"kill -9 of every process, {result.kills} times in a replay of {corpus.name} "
        f"({time.monotonic() - begin:.0f} s)",
        ["", "count", "of"],
        [
            ["kills while it started", result.starting, result.kills],
            ["kills with texts in flight", result.kills_with_texts_in_flight, result.kills],
            ["half documents seen after a start", len(result.partial_documents), result.seen],
            ["documents unfinished at the end", len(result.unfinished), result.documents],
            ["documents that differ from a rebuild", len(result.different), result.documents],
            ["dead letters", result.dead, ""],
            [
                "texts embedded again, in flight at a kill",
                result.again - len(result.unexpected_reembeds),
                result.texts,
            ],
            ["texts embedded again otherwise", len(result.unexpected_reembeds), result.texts],
        ],
    )
    print(f"  livedex verify at the end: {'no difference' if result.verified else 'DIFFERENCES'}")
