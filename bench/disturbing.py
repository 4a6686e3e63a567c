"""A replay of edits over a fleet while its processes are killed and its servers go away, and what
is left of it.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench.audit import OffsetAudit
from bench.corpus import Corpus
from bench.fleet import MultiProcessDeployment
from bench.killing import (
    CrashReplayResult,
    EditWriter,
    InFlightTexts,
    check_documents_whole,
    differences,
    rebuild,
    wait_and_read_index,
)
from tests.support.http.scripted_embedder import EmbeddingServer

COUNTS = {"watch": 1, "chunk": 2, "embed": 2, "sync": 2, "api": 1}
_API_BACK_S = 120.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A disturbance.

    Attributes:
        what: was struck.
        at: the time of the monotonic clock when it was.
        may_reembed: whether a text in flight from then on may be paid for again.
    """

    what: str
    at: float
    may_reembed: bool


@dataclass
class FaultReplayResult(CrashReplayResult):
    """What came of it.

    Attributes:
        faults: how often each thing was.
        ends: of processes that nobody killed.
        looks, records, ahead: see `Audit`.
        took_s: from the first change to the last disturbance.
        settled_s: from then until nothing was under way.
    """

    faults: Counter[str] = field(default_factory=Counter)
    ends: int = 0
    looks: int = 0
    records: int = 0
    ahead: list[str] = field(default_factory=list)
    took_s: float = 0.0
    settled_s: float = 0.0

    def rows(self) -> list[list[object]]:
        """For a table of "", count, of, bar."""
        strikes = self.faults.total()
        return [
            *(
                [f"struck: {what}", count, strikes, ""]
                for what, count in sorted(self.faults.items())
            ),
            ["with texts in flight", self.kills_with_texts_in_flight, strikes, "some"],
            ["half documents seen by a reader", len(self.partial_documents), self.seen, "0"],
            ["documents unfinished at the end", len(self.unfinished), self.documents, "0"],
            ["documents that differ from a rebuild", len(self.different), self.documents, "0"],
            ["dead letters", self.dead, "", "0"],
            [
                "texts embedded again, in flight at a strike",
                self.again - len(self.unexpected_reembeds),
                self.texts,
                "",
            ],
            ["texts embedded again otherwise", len(self.unexpected_reembeds), self.texts, "0"],
            ["committed records without an outcome", len(self.ahead), self.records, "0"],
            ["looks at committed offsets", self.looks, "", "some"],
            ["processes that ended by themselves", self.ends, "", "0"],
        ]

    def print_details(self) -> None:
        """What a table has no room for."""
        print(
            f"  replay {self.took_s:.0f} s, then {self.settled_s:.0f} s until nothing was under way"
        )
        print(f"  livedex verify at the end: {'no difference' if self.verified else 'DIFFERENCES'}")
        for found in (self.partial_documents, self.unfinished, self.different, self.ahead):
            for one in list(found)[:5]:
                print(f"  not as it should be: {one}")


def replay_with_faults(
    fleet: MultiProcessDeployment,
    embedder: EmbeddingServer,
    home: Path,
    corpus: Corpus,
    strike: Callable[[random.Random], Fault | None],
    *,
    strikes: int,
    wait_s: float,
    looks_every: int = 3,
    before_the_end: Callable[[], None] = lambda: None,
) -> FaultReplayResult:
    """Disturb a fleet again and again while the corpus is edited.

    Args:
        fleet: the processes that are disturbed.
        embedder: counts the texts.
        home: for files of its own.
        corpus: the documents and their edits.
        strike: strikes once, and returns when it is over; None where it found nothing to strike.
        strikes: how many faults are made.
        wait_s: between two, at most.
        looks_every: so many strikes some documents are read.
        before_the_end: called after the last strike, before what is left is looked at.
    """
    rng, result, allowed = random.Random(0), FaultReplayResult(), Counter[str]()
    meter = InFlightTexts(embedder, takes_s=0.2)
    writer = EditWriter(home, fleet.docs, corpus, seed=0, pause_s=0.15)
    fleet.start()
    with OffsetAudit(fleet.kafka, fleet.bootstrap, fleet.database.url) as audit:
        begin = time.monotonic()
        writer.start()
        try:
            while result.faults.total() < strikes or writer.left:
                time.sleep(rng.uniform(0, wait_s))
                if (done := strike(rng)) is None:
                    continue
                time.sleep(0.05)  # what was sent is received
                result.faults[done.what] += 1
                in_flight = meter.in_flight(done.at)
                result.kills_with_texts_in_flight += bool(in_flight)
                allowed.update(in_flight if done.may_reembed else ())
                if result.faults.total() % looks_every == 0:
                    _wait_ready(fleet)
                    check_documents_whole(fleet, writer, rng, sample=5, result=result)
        finally:
            writer.end()
            before_the_end()
        result.took_s = time.monotonic() - begin
        fleet.wait_ready()
        found = wait_and_read_index(fleet, result)
        result.settled_s = time.monotonic() - begin - result.took_s
        result.verified = fleet.command("verify").returncode == 0
    result.looks, result.records, result.ahead, result.ends = (
        audit.looks,
        audit.records,
        audit.ahead,
        fleet.ends,
    )
    result.count(embedder.embedded_documents, allowed)
    result.different = differences(found, rebuild(home, fleet.docs))
    return result


def _wait_ready(fleet: MultiProcessDeployment) -> None:
    """Wait until the API says that it can serve.

    Raises:
        TimeoutError: it took too long.
    """
    said = ["nothing"]

    def ready() -> bool:
        try:
            answer = fleet.http.get("/readyz")
        except httpx.TransportError as exc:
            said.append(type(exc).__name__)
            return False
        said.append(answer.text)
        return answer.status_code == 200

    try:
        fleet.until(ready, _API_BACK_S, every_s=0.05)
    except TimeoutError as exc:
        raise TimeoutError(f"the API is not ready after {_API_BACK_S:.0f} s: {said[-1]}") from exc
