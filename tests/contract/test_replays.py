"""Dead letters that are sent through again, on both brokers: attempts add up, bytes and place
stay, what works is gone, and nothing is done twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from livedex.app.dead_letter_replay import ReplayResult, replay_dead_letters
from livedex.app.wiring import AppContext
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.events.event import Event
from livedex.pipeline.stages import outcome
from livedex.pipeline.stages.outcome import MAX_ATTEMPTS, Finished
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from tests.support.pipelines.stage_runner import (
    StageHarness,
    StartStage,
    stage_on_kafka,
    stage_on_postgres,
)


class Surrounding:
    """As much of an installation as replays need."""

    def __init__(self, database: Database) -> None:
        self.database, self.letters = database, DeadLetterStore(database)


@pytest.fixture(params=["postgres", "kafka"])
def running(
    request: pytest.FixtureRequest,
    owner_url: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> StartStage:
    monkeypatch.setattr(outcome, "FIRST_RETRY_DELAY_S", outcome.FIRST_RETRY_DELAY_S / 100)
    if request.param == "postgres":
        return stage_on_postgres(owner_url, database)
    return stage_on_kafka(request.getfixturevalue("kafka"), database)


async def replay(database: Database, bench: StageHarness, broker: Any = None) -> ReplayResult:
    """Everything that is listed, as `livedex dead replay --all` does."""

    async def whole() -> AsyncIterator[DeadLetter]:
        for listed in await bench.letters.all():
            yield await bench.letters.find(listed.letter_id)

    done = await replay_dead_letters(
        cast(AppContext, Surrounding(database)), broker or bench.broker, whole()
    )
    await bench.wait_drained()
    return done


async def test_attempts_add_up_place_and_bytes_stay_and_what_works_is_gone(
    running: StartStage, database: Database
) -> None:
    failures: list[Exception | None] = [
        RetryableError("not now"),
        RejectedError("never"),
        RetryableError("not now"),
        None,
    ]

    async def run(event: Event[Any]) -> Finished:
        if failures[0] is not None:
            raise failures[0]
        return Finished()

    async with running(run) as bench:
        await bench.publish("d")
        await bench.wait_drained()
        [first] = await bench.letters.all()
        whole = await bench.letters.find(first.letter_id)
        assert first.attempts == MAX_ATTEMPTS
        for attempts in (MAX_ATTEMPTS + 1, 2 * MAX_ATTEMPTS + 1):
            failures.pop(0)
            assert (await replay(database, bench)).replayed == 1
            [again] = await bench.letters.all()
            assert again.attempts == attempts
            found = await bench.letters.find(again.letter_id)
            assert (found.letter_id, found.payload, found.place, found.at) == (
                whole.letter_id,
                whole.payload,
                whole.place,
                whole.at,
            )
            assert "livedex-letter" not in found.headers
        failures.pop(0)
        assert (await replay(database, bench)).replayed == 1
        assert await bench.letters.all() == []
        with pytest.raises(Exception, match=r"dead letter .* not found"):
            await bench.letters.find(first.letter_id)


async def test_bytes_that_are_no_event_stay_one_letter(
    running: StartStage, database: Database
) -> None:
    async def run(event: Event[Any]) -> Finished:
        raise AssertionError("there is none")

    async with running(run) as bench:
        await bench.put(b"\xff{")
        await bench.wait_drained()
        for attempts in (1, 2, 3):
            [letter] = await bench.letters.all()
            assert (letter.reason, letter.attempts) == ("invalid_event", attempts)
            await replay(database, bench)


class Fickle:
    """A broker some of whose answers never come, or that takes some records never."""

    def __init__(
        self, bench: StageHarness, errors: Sequence[tuple[Exception | None, bool]]
    ) -> None:
        self._bench, self._errors = bench, list(errors)

    async def republish_dead_letter(self, letter: DeadLetter) -> None:
        error, arrives = self._errors.pop(0)
        if arrives:
            await self._bench.broker.republish_dead_letter(letter)
        if error is not None:
            raise error


async def test_each_is_sent_on_its_own_and_one_that_timed_out_is_not_done_twice(
    running: StartStage, database: Database
) -> None:
    seen: list[str] = []
    dies = True

    async def run(event: Event[Any]) -> Finished:
        if dies:
            raise RejectedError("never")
        seen.append(event.document_id)
        return Finished()

    async with running(run) as bench:
        await bench.publish(*"abcde")
        await bench.wait_drained()
        dies = False
        timed_out = OutageError("broker", "no answer")
        fickle = Fickle(
            bench,
            [
                (RejectedError("too large"), False),
                (None, True),
                (timed_out, True),
                (timed_out, False),
                (None, True),
            ],
        )
        done = await replay(database, bench, fickle)
        assert (done.replayed, done.stale, len(done.failed)) == (2, 0, 3)
        assert len(seen) == 3, "one was sent though nobody said so"
        [kept] = await bench.letters.all()
        assert "too large" in dict(done.failed)[kept.letter_id]
        assert await database.total("count_letters", "count") == 1
        assert (await replay(database, bench)).replayed == 1
        assert sorted(seen) == sorted(set(seen)) and len(seen) == 4
        async with database.tenant(kept.tenant_id) as connection:
            await connection.execute(
                "update dead_letters set replayed_at = replayed_at - interval '16 minutes'"
            )
        [undecided] = await bench.letters.all()
        assert (await replay(database, bench)).failed == []
        assert (
            sorted(seen) == list("abcde")
            and await bench.letters.all() == []
            and undecided.attempts == 1
        )


async def test_a_header_that_somebody_wrote_takes_no_letter_away(
    running: StartStage, database: Database
) -> None:
    dies = True

    async def run(event: Event[Any]) -> Finished:
        if dies:
            raise RejectedError("never")
        return Finished()

    async with running(run) as bench:
        await bench.publish("a", "b")
        await bench.wait_drained()
        first, second = await bench.letters.all()
        dies = False
        forged = await bench.letters.find(first.letter_id)
        await bench.broker.republish_dead_letter(
            DeadLetter(
                second.letter_id,
                *(
                    getattr(forged, name)
                    for name in (
                        "tenant_id",
                        "stage",
                        "document_id",
                        "version",
                        "reason",
                        "detail",
                        "attempts",
                        "topic",
                        "place",
                        "headers",
                        "payload",
                    )
                ),
            )
        )
        await bench.wait_drained()
        assert [letter.letter_id for letter in await bench.letters.all()] == [
            first.letter_id,
            second.letter_id,
        ]
