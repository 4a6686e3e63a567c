"""Kafka and PostgreSQL killed and started again in a replay, without a restart of Livedex: nothing lost, nothing doubled, nothing given up."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path

from bench import corpus as corpora
from bench.disturbing import COUNTS, Disturbed, Strike, disturb
from bench.fleet import Fleet, a_fleet
from bench.killing import DIMENSIONS, embedder_settings
from bench.table import show
from tests.kafka_server import KafkaServer
from tests.scripted_embedder import ScriptedEmbedder

FILES = 60
_WAIT_S = 6.0
_AWAY_S = 4.0


async def run(kills: int = 20, files: int = FILES) -> None:
    """Print the table of the outages.

    Args:
        kills: of each.
    """
    corpus = corpora.load(files)
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        result = await asyncio.to_thread(_measure, Path(folder), corpus, kills)
    show(
        f"Kafka and PostgreSQL killed and started again, {kills} times each in a replay of {corpus.name}",
        ["", "count", "of", "bar"],
        result.rows(),
    )
    result.print_details()


def _measure(home: Path, corpus: corpora.Corpus, kills: int) -> Disturbed:
    turns = iter(["Kafka", "PostgreSQL"] * 1_000_000)
    with (
        ScriptedEmbedder(DIMENSIONS) as embedder,
        KafkaServer() as kafka,
        a_fleet(home, COUNTS, bootstrap=kafka.bootstrap, **embedder_settings(embedder)) as fleet,
    ):
        return disturb(
            fleet,
            embedder,
            home,
            corpus,
            lambda rng: _outage(fleet, kafka, next(turns), rng),
            strikes=2 * kills,
            wait_s=_WAIT_S,
            looks_every=2,
        )


def _outage(fleet: Fleet, kafka: KafkaServer, which: str, rng: random.Random) -> Strike:
    at, away_s = time.monotonic(), rng.uniform(0, _AWAY_S)
    if which == "Kafka":
        kafka.kill()
        time.sleep(away_s)
        kafka.start()
    else:
        fleet.database.kill()
        time.sleep(away_s)
        fleet.database.start()
    return Strike(which, at, costs=which == "PostgreSQL")
