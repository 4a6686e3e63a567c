"""A delete without a version outlives what arrived before it, in whatever order records are
processed, and nothing that arrived after it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.events.event import Changed, Event, change_event
from livedex.pipeline.model import Arrival, DocumentId, Reader
from livedex.pipeline.stages.batched_store import BatchedDraftStore
from livedex.pipeline.stages.chunk import ChunkStage
from livedex.pipeline.stages.document_chunker import ChunkerConfig, ThreadChunker
from livedex.pipeline.stages.outcome import DeadLettered, Forward, outcome_of
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from tests.support.builders.search_corpus import TENANT

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CUTTING = ChunkerConfig()


@dataclass(frozen=True)
class Sent:
    """A record in the order of arrival; `version` None: a delete without one; `failures`: attempts
    that fail before one works.
    """

    at: Arrival
    version: int | None
    failures: int = 0


class Stages:
    """The stages, a record at a time."""

    def __init__(self, database: Database) -> None:
        self.database, self.store = database, PgVectorStore(database)
        self._keeper, self._cutter, self._blobs = (
            BatchedDraftStore(self.store),
            ThreadChunker(CUTTING),
            PostgresBlobStore(database),
        )

    def event(self, document_id: str, sent: Sent) -> Event[Changed]:
        if sent.version is None:
            data = Changed(
                tenant_id=TENANT, document_id=document_id, version=0, deleted=True, any_version=True
            )
        else:
            data = Changed(
                tenant_id=TENANT,
                document_id=document_id,
                version=sent.version,
                content="dGV4dA==",
                size_bytes=4,
            )
        return change_event(data).arrived(sent.at)

    async def chunk(self, event: Event[Changed]) -> Forward | None:
        done = await ChunkStage(
            store=self.store,
            drafts=self._keeper,
            blobs=self._blobs,
            chunker=self._cutter,
            config=CUTTING,
            record_reused=lambda _: None,
        ).run(event)
        return done if isinstance(done, Forward) else None

    async def sync(self, step: Forward) -> None:
        await self.store.sync_document(
            step.event.tenant_id, step.event.document_id, step.event.data.fence, None
        )

    async def version(self, document_id: str) -> int | None:
        found = await DocumentQueries(self.database).get(Reader(TENANT), DocumentId(document_id))
        return None if found is None else found.version


def expected(records: Sequence[Sent]) -> int | None:
    """The model: of what arrived after the last delete, the newest version."""
    after = 1 + max((n for n, each in enumerate(records) if each.version is None), default=-1)
    return max((each.version for each in records[after:] if each.version is not None), default=None)


def some_records(rng: random.Random) -> list[Sent]:
    """Versions grow; the times of one partition may be equal, since a batch has one."""
    found: list[Sent] = []
    at, last = BEGIN, 0
    for n in range(rng.randint(2, 7)):
        partition = rng.randrange(2)
        if partition != last or rng.random() < 0.5:
            at += timedelta(milliseconds=1)
        last = partition
        version = None if rng.random() < 0.4 else n + 1
        found.append(
            Sent(
                Arrival(at, partition, n),
                version,
                0 if version is None or rng.random() < 0.5 else rng.randint(1, 3),
            )
        )
    return found


async def process(
    stages: Stages, rng: random.Random, document_id: str, records: Sequence[Sent]
) -> None:
    """Each partition in its order, but that what fails is put aside; partitions and stages in any
    interleaving; some records twice.
    """
    lanes: dict[int, list[Sent]] = defaultdict(list)
    for each in records:
        lanes[each.at.partition or 0].append(each)
    aside: list[tuple[Sent, int]] = []
    steps: list[Forward] = []
    while any(lanes.values()) or aside or steps:
        kind = rng.choice(
            [
                name
                for name, there in (
                    ("lane", any(lanes.values())),
                    ("aside", aside),
                    ("sync", steps),
                )
                if there
            ]
        )
        if kind == "sync":
            await stages.sync(steps.pop(rng.randrange(len(steps))))
            continue
        if kind == "lane":
            each = lanes[rng.choice([lane for lane, left in lanes.items() if left])].pop(0)
            failures = each.failures
        else:
            each, failures = aside.pop(rng.randrange(len(aside)))
        if failures:
            aside.append((each, failures - 1))
            continue
        for _ in range(rng.choice([1, 1, 2])):
            step = await stages.chunk(stages.event(document_id, each))
            if step is not None:
                steps.append(step)


async def test_what_is_visible_at_the_end_follows_from_the_order_of_arrival_alone(
    database: Database,
) -> None:
    stages = Stages(database)
    for seed in range(150):
        rng = random.Random(seed)
        records = some_records(rng)
        await process(stages, rng, f"doc {seed}", records)
        assert await stages.version(f"doc {seed}") == expected(records), (seed, records)


@pytest.mark.parametrize("accepted", ["2099-01-01T00:00:00Z", "1971-01-01T00:00:00Z"])
async def test_the_time_that_a_sender_gives_decides_nothing(
    database: Database, accepted: str
) -> None:
    stages = Stages(database)
    first, delete, again = (
        Sent(Arrival(BEGIN + timedelta(seconds=n), 0, n), version)
        for n, version in enumerate((1, None, 2))
    )
    said = datetime.fromisoformat(accepted)
    for sent, visible in ((first, 1), (delete, None), (again, 2)):
        event = stages.event("doc", sent).model_copy(update={"accepted": said}).arrived(sent.at)
        assert event.accepted <= sent.at.at
        step = await stages.chunk(event)
        assert step is not None
        await stages.sync(step)
        assert await stages.version("doc") == visible


async def test_a_change_that_dies_after_its_delete_shows_nothing_and_its_replay_brings_nothing_back(
    database: Database,
) -> None:
    stages, letters = Stages(database), DeadLetterStore(database)
    event = stages.event("doc", Sent(Arrival(BEGIN, 0, 1), 1))
    await stages.chunk(stages.event("doc", Sent(Arrival(BEGIN + timedelta(seconds=1), 1, 9), None)))
    dead = outcome_of(RetryableError("no answer"), 99)
    assert isinstance(dead, DeadLettered)
    await letters.bury(
        DeadLetter("l", TENANT, "chunk", event.document_id, 1, dead.reason, dead.detail, 5), event
    )
    assert await DocumentQueries(database).get(Reader(TENANT), event.document_id) is None
    assert await stages.chunk(event) is None


async def test_a_letter_from_before_a_delete_is_stale(database: Database) -> None:
    stages, letters = Stages(database), DeadLetterStore(database)
    event = stages.event("doc", Sent(Arrival(BEGIN, 0, 1), 1))
    await letters.bury(
        DeadLetter("l", TENANT, "chunk", event.document_id, 1, "failed", "why", 5), event
    )
    letter = await letters.find("l")
    assert not await letters.is_stale(letter)
    step = await stages.chunk(
        stages.event("doc", Sent(Arrival(datetime.now(UTC) + timedelta(seconds=5), 0, 2), None))
    )
    assert step is not None
    assert await letters.is_stale(letter)
