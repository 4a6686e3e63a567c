"""`kill -9` of random processes of the stages in a replay over Kafka: nothing lost, nothing doubled, no text paid twice but what was in flight."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from bench import corpus as corpora
from bench.disturbing import COUNTS, Disturbed, Strike, disturb
from bench.fleet import Fleet, a_fleet
from bench.killing import DIMENSIONS, embedder_settings
from bench.table import show
from tests.scripted_embedder import ScriptedEmbedder

FILES = 60
_WAIT_S = 3.0


async def run(kills: int = 300, files: int = FILES) -> None:
    """Print the table of the kills."""
    corpus = corpora.load(files)
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        result = await asyncio.to_thread(_measure, Path(folder), corpus, kills)
    show(f"kill -9 of a process, {kills} times in a replay of {corpus.name} over Kafka", ["", "count", "of", "bar"], result.rows())
    result.print_details()


def _measure(home: Path, corpus: corpora.Corpus, kills: int) -> Disturbed:
    with ScriptedEmbedder(DIMENSIONS) as embedder, a_fleet(home, COUNTS, **embedder_settings(embedder)) as fleet:
        return disturb(fleet, embedder, home, corpus, lambda rng: kill_one(fleet, rng), strikes=kills, wait_s=_WAIT_S)


def kill_one(fleet: Fleet, rng: random.Random) -> Strike | None:
    """Kill a random process of a stage; None where the one that was chosen is just being started."""
    member = rng.choice(fleet.stages())
    at = member.kill()
    return None if at is None else Strike(member.role, at, costs=member.role == "embed")
