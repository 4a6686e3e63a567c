"""Random processes of the stages stand still for 5 to 60 s, or are killed, in a replay over Kafka:
nothing lost, everybody else's documents visible soon,
and no text embedded twice but what was in flight.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
import time
from pathlib import Path

import httpx

from bench import corpus as corpora
from bench.disturbing import COUNTS, Fault, FaultReplayResult, replay_with_faults
from bench.fleet import MultiProcessDeployment, running_deployment
from bench.kafka_kills import kill_random_process
from bench.killing import DIMENSIONS, embedder_settings
from bench.table import print_table
from tests.support.http.scripted_embedder import EmbeddingServer

FILES = 40
VISIBLE_S = 35.0
_SHORTEST_S, _LONGEST_S = 5.0, 60.0
_KILLS = 0.3
_PROBE_EVERY_S = 1.0


class VisibilityProbe:
    """Somebody else's documents: one a second is written, and how long it takes until a search
    finds it is measured.

    Attributes:
        took_s: of those that were found.
        waiting: those that were not: when they were written, by what they hold.
    """

    def __init__(self, fleet: MultiProcessDeployment) -> None:
        self._fleet = fleet
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="probe")
        self.took_s: list[float] = []
        self.waiting: dict[str, float] = {}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Write nothing more, and wait for what was written, for a minute at most."""
        self._ending.set()
        self._thread.join()

    def _work(self) -> None:
        rng, written = random.Random(7), 0.0
        with httpx.Client(
            base_url=str(self._fleet.http.base_url), timeout=10, trust_env=False
        ) as http:
            while not self._ending.is_set():
                if time.monotonic() - written > _PROBE_EVERY_S:
                    mark, written = f"probe{rng.getrandbits(40):x}", time.monotonic()
                    (self._fleet.docs / f"{mark}.md").write_text(
                        f"# Probe\n\n{mark} is written by somebody else, who waits for "
                        "nobody's process.\n"
                    )
                    self.waiting[mark] = written
                self._look(http)
                time.sleep(0.1)
            end = time.monotonic() + _LONGEST_S
            while self.waiting and time.monotonic() < end:
                self._look(http)
                time.sleep(0.1)

    def _look(self, http: httpx.Client) -> None:
        for mark, since in list(self.waiting.items()):
            try:
                answer = http.post(
                    "/v1/search", json={"query": mark, "mode": "keyword", "limit": 1}
                )
            except httpx.TransportError:
                return
            if answer.status_code == 200 and any(
                mark in hit["content"] for hit in answer.json()["hits"]
            ):
                self.took_s.append(time.monotonic() - since)
                del self.waiting[mark]


async def run(kills: int = 60, files: int = FILES) -> None:
    """Print the table; `kills` is how often a process is struck."""
    corpus = corpora.load_corpus(files)
    with tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder:
        result, probe = await asyncio.to_thread(_measure, Path(folder), corpus, kills)
    slowest = max(probe.took_s, default=0.0)
    late = sum(took > VISIBLE_S for took in probe.took_s) + len(probe.waiting)
    rows = [
        *result.rows(),
        ["documents of others: slowest, s", round(slowest, 1), len(probe.took_s), VISIBLE_S],
        ["documents of others: later than that", late, len(probe.took_s), "0"],
    ]
    print_table(
        f"SIGSTOP for {_SHORTEST_S:.0f} to {_LONGEST_S:.0f} s and kill -9, {kills} times in "
        f"a replay of {corpus.name} over Kafka",
        ["", "count", "of", "bar"],
        rows,
    )
    result.print_details()


def _measure(
    home: Path, corpus: corpora.Corpus, kills: int
) -> tuple[FaultReplayResult, VisibilityProbe]:
    with (
        EmbeddingServer(DIMENSIONS) as embedder,
        running_deployment(home, COUNTS, **embedder_settings(embedder)) as fleet,
    ):
        probe = VisibilityProbe(fleet)
        begun = False

        def strike(rng: random.Random) -> Fault | None:
            nonlocal begun
            if not begun:
                begun = True
                probe.start()
            return (
                kill_random_process(fleet, rng)
                if rng.random() < _KILLS
                else freeze_random_process(fleet, rng)
            )

        def end() -> None:
            if begun:
                probe.end()

        result = replay_with_faults(
            fleet, embedder, home, corpus, strike, strikes=kills, wait_s=10.0, before_the_end=end
        )
        return result, probe


def freeze_random_process(fleet: MultiProcessDeployment, rng: random.Random) -> Fault | None:
    """Let a random process of a stage stand still; None where it is just being started."""
    member = rng.choice(fleet.stages())
    at = member.freeze(rng.uniform(_SHORTEST_S, _LONGEST_S))
    return (
        None
        if at is None
        else Fault(f"{member.role} frozen", at, may_reembed=member.role == "embed")
    )
