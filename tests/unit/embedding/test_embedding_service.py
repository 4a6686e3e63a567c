"""Outages, health, queries, and the check at the start."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from livedex.pipeline.embedding.embedder import Vectors
from livedex.pipeline.embedding.provider_errors import QuotaExhaustedError
from livedex.pipeline.errors import (
    ConfigError,
    OutageError,
    RateLimitedError,
    RejectedError,
    RetryableError,
)
from tests.unit.embedding.asking import (
    assert_embeddings,
    collect_embeddings,
    counting,
    fail_first,
    fail_when,
    is_probe,
    service_on,
)
from tests.unit.embedding.fake_time import FakeClock

Passages = Callable[[int], list[str]]


def away() -> Exception:
    return RetryableError("no answer")


@pytest.mark.parametrize(
    "error",
    [lambda: OutageError("embedder", "HTTP 401: check the key"), away],
    ids=["401", "silence"],
)
async def test_an_outage_is_shown_pauses_everything_and_ends_by_itself(
    time: FakeClock, passages: Passages, error: Callable[[], Exception]
) -> None:
    told: list[tuple[bool, str]] = []
    embedder = counting()
    embedder.script = fail_when(error)
    service, texts = (
        service_on(embedder, time, on_health=lambda ok, reason: told.append((ok, reason))),
        passages(5),
    )
    assert service.health.status == "ok"
    got = await time.run(collect_embeddings(service, texts))
    assert got.outage is not None
    assert (service.health.status, service.health.reason) == ("down", str(error()))
    since, before = service.health.since, embedder.requests
    for _ in range(100):
        assert (await collect_embeddings(service, texts)).outage is not None
        with pytest.raises(OutageError):
            await service.embed_query("a question")
    assert embedder.requests == before
    await time.advance(120)
    assert before + 8 <= embedder.requests <= before + 20
    assert all(is_probe(sent) for sent in embedder.sent[before:])
    assert service.health.since == since
    embedder.script = fail_first(0, away)
    await time.advance(15)
    assert service.health.status == "ok"
    assert told == [(False, str(error())), (True, "")]
    assert_embeddings(await time.run(collect_embeddings(service, texts)), texts, embedder)


async def test_the_first_trial_comes_soon_and_later_ones_at_growing_intervals(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    trials: list[float] = []

    async def script(texts: Sequence[str], number: int) -> None:
        trials.append(time.now_s)
        raise OutageError("embedder", "HTTP 401")

    embedder.script = script
    service = service_on(embedder, time)
    await time.run(collect_embeddings(service, passages(1)))
    await time.advance(70)
    pauses = [later - sooner for sooner, later in itertools.pairwise(trials)]
    assert pauses[:8] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
    await service.close()


async def test_the_reason_shown_is_the_last_one(time: FakeClock, passages: Passages) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: OutageError("embedder", "HTTP 401"))
    service = service_on(embedder, time)
    await time.run(collect_embeddings(service, passages(1)))
    embedder.script = fail_when(lambda: OutageError("embedder", "HTTP 404"))
    await time.advance(1)
    assert service.health.reason == "HTTP 404"
    await service.close()


async def test_a_provider_that_refuses_everything_is_away(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: RejectedError("HTTP 400"))
    service = service_on(embedder, time)
    got = await time.run(collect_embeddings(service, passages(3)))
    assert got.outage is not None
    assert got.refused == {}
    assert "even a probe" in service.health.reason
    await service.close()


async def test_vectors_of_another_length_are_an_outage_that_says_so(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    service = service_on(embedder, time, dimensions=16)
    got = await time.run(collect_embeddings(service, passages(3)))
    assert got.outage is not None
    assert "length 32 where 16 is expected" in service.health.reason
    assert got.vectors == {}
    await service.close()


async def test_a_query_does_not_wait_behind_documents(time: FakeClock, passages: Passages) -> None:
    embedder = counting(max_texts=1)
    door = asyncio.Event()

    async def script(texts: Sequence[str], number: int) -> None:
        if texts[0] != "question":
            await door.wait()

    embedder.script = script
    service, texts = service_on(embedder, time), passages(3)
    call = asyncio.ensure_future(collect_embeddings(service, texts))
    await time.settle()
    assert np.allclose(
        await service.embed_query("question"), embedder.vector("question"), atol=1e-6
    )
    door.set()
    assert_embeddings(await time.run(call), texts, embedder)


async def test_a_query_asked_again_costs_nothing(time: FakeClock) -> None:
    embedder = counting()
    service = service_on(embedder, time)
    first = await service.embed_query("question")
    assert (await service.embed_query("question") == first).all()
    assert embedder.requests == 1
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0
    for n in range(1_000):
        await service.embed_query(f"question {n}")
    await service.embed_query("question")
    assert embedder.queries.count("question") == 2


async def test_a_query_is_tried_twice_and_then_a_probe_finds_out(time: FakeClock) -> None:
    embedder = counting()
    embedder.script = fail_when(away)
    service = service_on(embedder, time)
    with pytest.raises(RetryableError):
        await time.run(service.embed_query("question"))
    await time.settle()
    assert embedder.sent == [["question"], ["question"], ["livedex"]]
    assert service.health.status == "down"
    embedder.script = fail_first(0, away)
    await time.advance(1)
    assert service.health.status == "ok"
    assert len(await service.embed_query("question")) == 32
    await service.close()


async def test_a_query_that_alone_fails_leaves_the_provider_well(time: FakeClock) -> None:
    embedder = counting()
    embedder.script = fail_when(
        lambda: RejectedError("HTTP 400"), lambda texts: texts[0] == "question"
    )
    service = service_on(embedder, time)
    with pytest.raises(RetryableError, match="refuses the query"):
        await service.embed_query("question")
    await time.settle()
    assert service.health.status == "ok"
    await service.close()


async def test_a_query_without_an_answer_ends_in_time(time: FakeClock) -> None:
    embedder = counting()

    async def script(texts: Sequence[str], number: int) -> None:
        await asyncio.Event().wait()

    embedder.script = script
    service = service_on(embedder, time, query_deadline_s=0.01)
    with pytest.raises(RetryableError, match="did not answer"):
        await service.embed_query("question")
    await service.close()


async def test_a_query_told_to_wait_is_not_asked_before(time: FakeClock) -> None:
    embedder = counting()
    embedder.script = fail_first(1, lambda: RateLimitedError("HTTP 429", retry_after_s=2.0))
    service = service_on(embedder, time)
    for _ in range(3):
        with pytest.raises(RateLimitedError):
            await service.embed_query("question")
    assert embedder.requests == 1
    await time.advance(2)
    assert len(await service.embed_query("question")) == 32


async def test_a_long_query_is_cut(time: FakeClock) -> None:
    embedder = counting(max_text_characters=10)
    await service_on(embedder, time).embed_query("0123456789abc")
    assert embedder.queries == ["0123456789"]


async def test_the_check_gives_the_length_and_asks_once(time: FakeClock) -> None:
    embedder = counting()
    service = service_on(embedder, time)
    assert await service.check() == 32
    assert await service.check() == 32
    assert embedder.requests == 1
    assert service.dimensions == 32


async def test_the_check_refuses_another_length_than_configured(time: FakeClock) -> None:
    service = service_on(counting(), time, dimensions=8)
    with pytest.raises(ConfigError, match=r"LIVEDEX_DIMENSIONS is 8, .*32"):
        await service.check()
    assert service.health.status == "ok"


async def test_the_check_of_a_provider_that_is_away_is_an_outage_and_it_recovers(
    time: FakeClock,
) -> None:
    embedder = counting()
    embedder.script = fail_when(away)
    service = service_on(embedder, time)
    for _ in range(3):
        with pytest.raises(OutageError):
            await service.check()
    assert embedder.requests == 1
    embedder.script = fail_first(0, away)
    await time.advance(1)
    assert await service.check() == 32


async def test_every_request_and_every_text_is_counted(time: FakeClock, passages: Passages) -> None:
    class Counts:
        def __init__(self) -> None:
            self.texts = self.characters = 0
            self.outcomes: list[str] = []

        def embedded(self, texts: int, characters: int) -> None:
            self.texts += texts
            self.characters += characters

        def requested(self, outcome: str) -> None:
            self.outcomes.append(outcome)

    counts, embedder, texts = Counts(), counting(), passages(4)
    failures = [
        RetryableError("x"),
        RejectedError("x"),
        QuotaExhaustedError("x"),
        OutageError("embedder", "x"),
    ]

    async def script(sent: Sequence[str], number: int) -> Vectors | None:
        if number < len(failures):
            raise failures[number]
        return None

    embedder.script = script
    service = service_on(embedder, time, observer=counts)
    await time.run(collect_embeddings(service, texts))
    await time.advance(1)
    await time.run(collect_embeddings(service, texts))
    await service.embed_query("question")
    assert counts.outcomes == ["retry", "rejected", "outage", "outage", "ok", "ok", "ok"]
    assert (counts.texts, counts.characters) == (4, sum(map(len, texts)))


@pytest.mark.parametrize("pattern", ["10", "110", "1100", "01", "001110", "111000"])
@pytest.mark.parametrize("texts_at_once", [1, 5, 40])
async def test_no_rhythm_of_failures_makes_a_text_guilty(
    time: FakeClock, passages: Passages, pattern: str, texts_at_once: int
) -> None:
    embedder = counting(max_texts=texts_at_once, concurrency=2)

    async def script(texts: Sequence[str], number: int) -> None:
        if pattern[number % len(pattern)] == "1":
            raise away()

    embedder.script = script
    service, left, texts = service_on(embedder, time), passages(40), passages(40)
    for _ in range(50):
        got = await time.run(collect_embeddings(service, left))
        assert got.refused == {}
        left = [text for index, text in enumerate(left) if index not in got.vectors]
        if not left:
            break
        await time.advance(20)
    assert sorted(embedder.texts) == sorted(texts)
    await service.close()


async def test_close_ends_what_runs_and_closes_the_embedder(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: OutageError("embedder", "HTTP 401"))
    service = service_on(embedder, time)
    await time.run(collect_embeddings(service, passages(1)))
    await service.close()
    assert embedder.closed
    before = embedder.requests
    await time.advance(100)
    assert embedder.requests == before
