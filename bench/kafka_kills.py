"""`kill -9` of random processes of the stages in a replay over Kafka: nothing lost, nothing
doubled, no text paid twice but what was in flight.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from bench import corpus as corpora
from bench.disturbing import COUNTS, Fault, FaultReplayResult, replay_with_faults
from bench.fleet import MultiProcessDeployment, running_deployment
from bench.killing import DIMENSIONS, embedder_settings
from bench.table import print_table
from tests.support.http.scripted_embedder import EmbeddingServer

FILES = 60
_WAIT_S = 3.0


async def run(kills: int = 300, files: int = FILES) -> None:
    """Print the table of the kills."""
    corpus = corpora.load_corpus(files)
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        result = await asyncio.to_thread(_measure, Path(folder), corpus, kills)
    print_table(
        f"kill -9 of a process, {kills} times in a replay of {corpus.name} over Kafka",
        ["", "count", "of", "bar"],
        result.rows(),
    )
    result.print_details()


def _measure(home: Path, corpus: corpora.Corpus, kills: int) -> FaultReplayResult:
    with (
        EmbeddingServer(DIMENSIONS) as embedder,
        running_deployment(home, COUNTS, **embedder_settings(embedder)) as fleet,
    ):
        return replay_with_faults(
            fleet,
            embedder,
            home,
            corpus,
            lambda rng: kill_random_process(fleet, rng),
            strikes=kills,
            wait_s=_WAIT_S,
        )


def kill_random_process(fleet: MultiProcessDeployment, rng: random.Random) -> Fault | None:
    """Kill a random process of a stage; None if the chosen one is just starting."""
    member = rng.choice(fleet.stages())
    at = member.kill()
    return None if at is None else Fault(member.role, at, may_reembed=member.role == "embed")
