"""Kafka and PostgreSQL killed and started again in a replay, without a restart of Livedex: nothing
lost, nothing doubled, nothing given up.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from bench import corpus as corpora
from bench.disturbing import COUNTS, Fault, FaultReplayResult, replay_with_faults
from bench.fleet import MultiProcessDeployment, running_deployment
from bench.killing import DIMENSIONS, embedder_settings
from bench.table import print_table
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.server import KafkaServer

FILES = 60
_WAIT_S = 6.0
_AWAY_S = 4.0


async def run(kills: int = 20, files: int = FILES) -> None:
    """Print the table of the outages.

    Args:
        kills: of each.
        files: how many documents there are.
    """
    corpus = corpora.load_corpus(files)
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        result = await asyncio.to_thread(_measure, Path(folder), corpus, kills)
    print_table(
        f"Kafka and PostgreSQL killed and started again, {kills} times each in a replay of "
        f"{corpus.name}",
        ["", "count", "of", "bar"],
        result.rows(),
    )
    result.print_details()


def _measure(home: Path, corpus: corpora.Corpus, kills: int) -> FaultReplayResult:
    turns = iter(["Kafka", "PostgreSQL"] * 1_000_000)
    with (
        EmbeddingServer(DIMENSIONS) as embedder,
        KafkaServer() as kafka,
        running_deployment(
            home, COUNTS, bootstrap=kafka.bootstrap, **embedder_settings(embedder)
        ) as fleet,
    ):
        return replay_with_faults(
            fleet,
            embedder,
            home,
            corpus,
            lambda rng: _outage(fleet, kafka, next(turns), rng),
            strikes=2 * kills,
            wait_s=_WAIT_S,
            looks_every=2,
        )


def _outage(
    fleet: MultiProcessDeployment, kafka: KafkaServer, which: str, rng: random.Random
) -> Fault:
    at, away_s = time.monotonic(), rng.uniform(0, _AWAY_S)
    if which == "Kafka":
        kafka.kill()
        time.sleep(away_s)
        kafka.start()
    else:
        fleet.database.kill()
        time.sleep(away_s)
        fleet.database.start()
    return Fault(which, at, may_reembed=which == "PostgreSQL")
