"""A receiver under a steady load of writes while Kafka is killed and comes back: every 2xx ends
synced, everything else was a 503 in bounded time.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench.corpus import paragraph
from bench.fleet import MultiProcessDeployment, running_deployment
from bench.killing import DIMENSIONS, embedder_settings
from bench.table import print_table
from livedex.pipeline.http.body_budget import WAIT_TIMEOUT_S
from livedex.pipeline.ingest.request_ingester import ACCEPT_TIMEOUT_S
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.server import KafkaServer

PER_SECOND = 200
BOUND_S = ACCEPT_TIMEOUT_S + WAIT_TIMEOUT_S
_COUNTS = {"webhook": 1, "chunk": 1, "embed": 1, "sync": 1, "api": 1}
_DOCUMENTS = 2_000
_AWAY_S = 4.0
_ASKING = 32
_ENDED_S = 600.0


@dataclass
class ResponseCounts:
    """What the receiver answered.

    Attributes:
        tokens: of what was accepted.
        seconds: of every answer.
        statuses: how often each; the name of the error where none came.
    """

    tokens: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int | str] = field(default_factory=Counter)


async def run(seconds: int = 60, kills: int = 3) -> None:
    """Print the table of answers.

    Args:
        seconds: how long payloads are sent.
        kills: of Kafka, evenly over the time; it is away for some seconds each time.
    """
    answers, states = await asyncio.to_thread(_measure, seconds, kills)
    accepted = len(answers.tokens)
    print_table(
        f"{PER_SECOND} writes a second for {seconds} s, Kafka killed {kills} times and away "
        f"for {_AWAY_S:.0f} s each",
        ["", "count", "of", "bar"],
        [
            ["answered 202", accepted, sum(answers.statuses.values()), "some"],
            [
                "of these ended synced, or as superseded by a later one",
                states["synced"] + states["superseded"],
                accepted,
                "all",
            ],
            ["answered 503", answers.statuses[503], sum(answers.statuses.values()), ""],
            [
                "answered otherwise, or not",
                sum(answers.statuses.values()) - accepted - answers.statuses[503],
                "",
                "0",
            ],
            ["median answer, ms", 1000 * statistics.median(answers.seconds), "", ""],
            ["slowest answer, s", max(answers.seconds), "", f"{BOUND_S:.0f}"],
        ],
    )
    print(f"  states of what was accepted: {dict(states)}; answers: {dict(answers.statuses)}")


def _measure(seconds: int, kills: int) -> tuple[ResponseCounts, Counter[str]]:
    with (
        tempfile.TemporaryDirectory(prefix="livedex-bench-") as folder,
        EmbeddingServer(DIMENSIONS) as embedder,
        KafkaServer() as kafka,
        running_deployment(
            Path(folder), _COUNTS, bootstrap=kafka.bootstrap, **embedder_settings(embedder)
        ) as fleet,
    ):
        fleet.start()
        answers = asyncio.run(_write(fleet, kafka, seconds, kills))
        return answers, asyncio.run(_states(fleet, answers.tokens))


async def _disturb(kafka: KafkaServer, seconds: float, kills: int) -> None:
    for _ in range(kills):
        await asyncio.sleep(seconds / (kills + 1))
        await asyncio.to_thread(kafka.kill)
        await asyncio.sleep(_AWAY_S)
        await asyncio.to_thread(kafka.restart)


async def _write(
    fleet: MultiProcessDeployment, kafka: KafkaServer, seconds: int, kills: int
) -> ResponseCounts:
    """Write at a steady rate, whether or not earlier writes were answered."""
    rng, answers = random.Random(0), ResponseCounts()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=PER_SECOND)
    async with (
        httpx.AsyncClient(
            base_url=fleet.receiver, timeout=2 * BOUND_S, trust_env=False, limits=limits
        ) as http,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(_disturb(kafka, seconds, kills))
        begin = time.monotonic()
        for number in range(seconds * PER_SECOND):
            await asyncio.sleep(max(0.0, begin + number / PER_SECOND - time.monotonic()))
            group.create_task(_put(http, answers, f"d{rng.randrange(_DOCUMENTS)}", paragraph(rng)))
    return answers


async def _put(http: httpx.AsyncClient, answers: ResponseCounts, name: str, text: str) -> None:
    begin = time.monotonic()
    status: int | str
    try:
        answer = await http.put(f"/v1/documents/{name}", json={"text": text})
        status = answer.status_code
        if status == 202:
            answers.tokens.append(answer.json()["token"])
    except httpx.TransportError as exc:
        status = type(exc).__name__
    answers.statuses[status] += 1
    answers.seconds.append(time.monotonic() - begin)


async def _states(fleet: MultiProcessDeployment, tokens: list[str]) -> Counter[str]:
    """How what was accepted has ended; `pending` is what had not in ten minutes."""
    states: Counter[str] = Counter()
    deadline = time.monotonic() + _ENDED_S
    left = list(tokens)

    async def ask(http: httpx.AsyncClient) -> None:
        while left:
            token = left.pop()
            state = "pending"
            while state == "pending" and time.monotonic() < deadline:
                state = (
                    (await http.get(f"/v1/sync/{token}", params={"wait_s": 30}))
                    .raise_for_status()
                    .json()["state"]
                )
            states[state] += 1

    async with httpx.AsyncClient(
        base_url=str(fleet.http.base_url), timeout=60, trust_env=False
    ) as http:
        await asyncio.gather(*(ask(http) for _ in range(_ASKING)))
    return states
