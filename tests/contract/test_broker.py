"""The consumer loop on a real broker: every record completes, none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest

from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.events.event import Changed, Event, change_event
from livedex.pipeline.flow import stage
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.stages.outcome import MAX_ATTEMPTS, Finished
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetterStore
from tests.support.pipelines.stage_runner import StartStage, stage_on_kafka, stage_on_postgres


@pytest.fixture(params=["postgres", "kafka"])
def running(request: pytest.FixtureRequest, owner_url: str, database: Database) -> StartStage:
    if request.param == "postgres":
        return stage_on_postgres(owner_url, database)
    return stage_on_kafka(request.getfixturevalue("kafka"), database)


async def test_every_record_reaches_the_stage_once(running: StartStage) -> None:
    seen: list[str] = []

    async def run(event: Event[Any]) -> Finished:
        seen.append(event.document_id)
        return Finished()

    async with running(run) as bench:
        await bench.publish(*(f"d{n}" for n in range(200)))
        await bench.wait_drained()
    assert sorted(seen) == sorted(f"d{n}" for n in range(200))


@pytest.mark.parametrize(
    "poison",
    [
        b"{not json",
        b"\xff\xfe{}",
        b"null",
        b"[1,2]",
        b'{"specversion": "1.0"}',
        b'"text"',
        b"0",
        b"{" * 5000,
    ],
    ids=repr,
)
async def test_bytes_that_are_no_event_become_one_letter_and_their_neighbours_go_on(
    running: StartStage, poison: bytes
) -> None:
    seen: list[str] = []

    async def run(event: Event[Any]) -> Finished:
        seen.append(event.document_id)
        return Finished()

    async with running(run) as bench:
        await bench.publish("before")
        await bench.put(poison)
        await bench.publish("after")
        await bench.wait_drained()
        letters = await bench.letters.all()
        assert [(x.stage, x.reason, x.tenant_id) for x in letters] == [
            ("chunk", "invalid_event", UNKNOWN_TENANT)
        ]
        assert (await bench.letters.find(letters[0].letter_id)).payload == poison
    assert sorted(seen) == ["after", "before"]


@pytest.mark.parametrize(
    "change", [{"schemaversion": 99}, {"type": 7}, {"data": {"tenant_id": "t"}}], ids=str
)
async def test_an_event_of_another_schema_is_a_letter(
    running: StartStage, change: dict[str, Any]
) -> None:
    import orjson

    async def run(event: Event[Any]) -> Finished:
        raise AssertionError("must not be reached")

    async with running(run) as bench:
        body = (
            orjson.loads(change_event(Changed(tenant_id="t", document_id="d", version=1)).encode())
            | change
        )
        await bench.put(orjson.dumps(body))
        await bench.wait_drained()
        assert [x.reason for x in await bench.letters.all()] == ["invalid_event"]


async def test_what_can_never_work_is_tried_once_and_buried_with_its_bytes(
    running: StartStage,
) -> None:
    tries: list[str] = []

    async def run(event: Event[Any]) -> Finished:
        tries.append(event.document_id)
        if event.document_id == "bad":
            raise RejectedError("no good", reason="content_missing")
        return Finished()

    async with running(run) as bench:
        await bench.publish("good", "bad", "fine")
        await bench.wait_drained()
        (letter,) = await bench.letters.all()
        assert (letter.document_id, letter.reason, letter.attempts) == ("bad", "content_missing", 1)
        assert b'"document_id":"bad"' in (await bench.letters.find(letter.letter_id)).payload
    assert sorted(tries) == ["bad", "fine", "good"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RetryableError("locked"), "retries_exhausted"), (ZeroDivisionError(), "failed")],
    ids=repr,
)
async def test_a_lasting_fault_is_tried_a_bounded_number_of_times(
    running: StartStage, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    monkeypatch.setattr("livedex.pipeline.stages.outcome.FIRST_RETRY_DELAY_S", 0.001)
    tries = 0

    async def run(event: Event[Any]) -> Finished:
        nonlocal tries
        if event.document_id == "bad":
            tries += 1
            raise error
        return Finished()

    async with running(run) as bench:
        await bench.publish("bad", *(f"d{n}" for n in range(20)))
        await bench.wait_drained()
        assert [(x.document_id, x.reason, x.attempts) for x in await bench.letters.all()] == [
            ("bad", reason, MAX_ATTEMPTS)
        ]
    assert tries == MAX_ATTEMPTS


async def test_an_outage_pauses_and_blames_nobody(running: StartStage) -> None:
    away, done, tries = [True], [], Counter[str]()

    async def run(event: Event[Any]) -> Finished:
        tries[event.document_id] += 1
        if away[0]:
            raise OutageError("embedder", "down", retry_after_s=0.05)
        done.append(event.document_id)
        return Finished()

    async with running(run) as bench:
        await bench.publish(*(f"d{n}" for n in range(30)))
        async with asyncio.timeout(60):
            while max(tries.values(), default=0) <= MAX_ATTEMPTS:
                await asyncio.sleep(0.02)
        assert (done, await bench.letters.all()) == ([], []) and (
            "embedder",
            "down",
        ) in bench.health
        away[0] = False
        await bench.wait_drained()
        assert await bench.letters.all() == [] and bench.health[-1] == ("embedder", None)
    assert sorted(done) == sorted(f"d{n}" for n in range(30))


async def test_a_stop_finishes_what_was_begun_and_gives_back_the_rest(running: StartStage) -> None:
    begun, done, gate = asyncio.Event(), [], asyncio.Event()

    async def run(event: Event[Any]) -> Finished:
        begun.set()
        await gate.wait()
        done.append(event.document_id)
        return Finished()

    async with running(run) as bench:
        await bench.publish(*(f"d{n}" for n in range(20)))
        await begun.wait()
        asyncio.get_running_loop().call_later(0.3, gate.set)
    at_the_stop = list(done)

    async def rest(event: Event[Any]) -> Finished:
        done.append(event.document_id)
        return Finished()

    assert 0 < len(at_the_stop) <= stage("chunk").workers
    async with running(rest) as bench:
        await bench.wait_drained()
    assert sorted(done) == sorted(f"d{n}" for n in range(20)), "something was lost, or done twice"


async def test_a_letter_that_cannot_be_written_is_not_lost(
    running: StartStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [OutageError("database", "away"), OutageError("database", "away")]
    bury = DeadLetterStore.bury

    async def failing(self: DeadLetterStore, *args: Any, **kwargs: Any) -> None:
        if refusals:
            raise refusals.pop()
        await bury(self, *args, **kwargs)

    monkeypatch.setattr(DeadLetterStore, "bury", failing)

    async def run(event: Event[Any]) -> Finished:
        raise RejectedError("no good")

    async with running(run) as bench:
        await bench.publish("bad")
        await bench.wait_drained()
        assert [x.document_id for x in await bench.letters.all()] == ["bad"]
    assert refusals == []


async def test_what_keeps_the_queue_from_taking_an_event_is_named(
    owner: asyncpg.Connection[asyncpg.Record], owner_url: str, database: Database
) -> None:
    """By the kind of the driver's error, which says of a full disk what nothing else does; its
    words may hold what was sent.
    """
    async with stage_on_postgres(owner_url, database)(_ends) as bench:
        await owner.execute("alter table queue add constraint full_disk check (id < 0) not valid")
        with pytest.raises(
            OutageError, match=r"^publish to livedex\.changed: CheckViolationError$"
        ):
            await bench.publish("document")
        await owner.execute("alter table queue drop constraint full_disk")
        await bench.publish("document")
        await bench.wait_drained()


async def _ends(event: Event[Any]) -> Finished:
    return Finished()
