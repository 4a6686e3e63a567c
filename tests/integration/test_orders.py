"""Events of one document in any order, repeated, and with their stages in any interleaving: the
greatest fence wins, each text is paid once.

What must come out is a model of a few lines: of all events the one with the greatest fence.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from livedex.consumers.embed import open_passage_embedder
from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import RetryableError
from livedex.pipeline.events.event import CHUNKED, EMBEDDED, SYNCED, Changed, Event, change_event
from livedex.pipeline.model import DocumentId, GenerationId, Reader, TenantId
from livedex.pipeline.stages.batched_store import (
    BatchedDraftStore,
    BatchedMissingVectorLookup,
    BatchedVersionPublisher,
)
from livedex.pipeline.stages.chunk import ChunkStage
from livedex.pipeline.stages.document_chunker import ChunkerConfig, ThreadChunker, chunk_document
from livedex.pipeline.stages.embed import PassageEmbedder, embed
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.sync import sync
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from tests.support.pipelines.indexed_folder import page, paragraph

DOCUMENT = DocumentId("docs/one.md")
CUTTING = ChunkerConfig()
MOST_DELIVERIES = 4
_TENANTS = itertools.count()

TEXTS = (page(1), page(2), page(1) + "\n" + paragraph(999), f"{paragraph(7)}\n\n" * 3, " \n")
"""Two of them share passages, one shows a passage three times, one has none."""


@dataclass(frozen=True, slots=True)
class What:
    """An event of the document; `text` None is a delete.

    Attributes:
        large: its content waits in the blob store.
    """

    version: int
    text: int | None
    title: str = "a"
    large: bool = False


whats = st.builds(
    What,
    st.integers(1, 4),
    st.none() | st.integers(0, len(TEXTS) - 1),
    st.sampled_from("ab"),
    st.booleans(),
)
six = st.lists(whats, min_size=6, max_size=6)


def winner(events: list[Event[Changed]]) -> Changed:
    """The model."""
    return max(
        (event.data for event in events), key=lambda data: (data.fence.version, data.fence.digest)
    )


def contents(text: str) -> list[str]:
    return [
        piece.content for piece in chunk_document(text.encode(), DOCUMENT, None, CUTTING).pieces
    ]


class Stages:
    """The stages on a real store, one message at a time or several at once, in the order they are
    told.
    """

    def __init__(
        self,
        database: Database,
        generation_id: GenerationId,
        gatherer: PassageEmbedder,
        embedder: FakeEmbedder,
    ) -> None:
        self.store, self.documents, self.blobs = (
            PgVectorStore(database),
            DocumentQueries(database),
            PostgresBlobStore(database),
        )
        self.keeper, self.manifests, self.syncer = (
            BatchedDraftStore(self.store),
            BatchedMissingVectorLookup(self.store),
            BatchedVersionPublisher(self.store),
        )
        self.gatherer, self.embedder, self._generation_id = gatherer, embedder, generation_id

    async def active(self) -> GenerationId:
        return self._generation_id

    async def run(self, event: Event[Any]) -> Forward | Finished:
        """The stage that takes this event."""
        match event.type.rsplit("/", 1)[-1]:
            case kind if kind == CHUNKED:
                return await embed(
                    event, store=self.manifests, generations=self, embedder=self.gatherer
                )
            case kind if kind == EMBEDDED:
                return await sync(event, store=self.syncer, generations=self)
            case kind if kind == SYNCED:
                return Finished()
        cutter = ThreadChunker(CUTTING)
        return await ChunkStage(
            store=self.store,
            drafts=self.keeper,
            blobs=self.blobs,
            chunker=cutter,
            config=CUTTING,
            record_reused=lambda count: None,
        ).run(event)

    async def accepted(self, tenant_id: TenantId, what: What) -> Event[Changed]:
        """The event as the intake publishes it."""
        own = Changed(
            tenant_id=tenant_id, document_id=DOCUMENT, version=what.version, title=what.title
        )
        if what.text is None:
            return change_event(own.model_copy(update={"deleted": True}))
        content = TEXTS[what.text].encode()
        update: dict[str, Any] = {
            "content": base64.b64encode(content).decode(),
            "size_bytes": len(content),
        }
        if what.large:
            await self.blobs.put(tenant_id, DOCUMENT, what.version, content)
            update = {"blob": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        return change_event(own.model_copy(update=update))

    async def deliver(self, events: list[Event[Any]], choices: random.Random) -> None:
        """Deliver every event and all that follows from it, in an order that is drawn, some of
        them again or at the same time.
        """
        waiting, deliveries = list(events), Counter[tuple[str, str]]()
        while waiting:
            count = choices.randint(1, min(3, len(waiting)))
            taken = [waiting.pop(choices.randrange(len(waiting))) for _ in range(count)]
            for event, outcome in zip(
                taken,
                await asyncio.gather(*map(self.run, taken), return_exceptions=True),
                strict=True,
            ):
                if isinstance(outcome, BaseException) and not isinstance(outcome, RetryableError):
                    raise outcome
                deliveries[key := (event.id, event.type)] += 1
                if isinstance(outcome, Forward):
                    waiting.append(outcome.event)
                if isinstance(outcome, RetryableError) or (
                    deliveries[key] < MOST_DELIVERIES and choices.random() < 0.2
                ):
                    waiting.append(event)


@pytest.fixture
async def stages(database: Database) -> AsyncIterator[Stages]:
    embedder = FakeEmbedder(16)
    service, store = EmbeddingService(embedder), PgVectorStore(database)
    async with open_passage_embedder(store, service) as gatherer:
        yield Stages(database, await store.ensure_generation("counting", 16), gatherer, embedder)
    await service.close()


async def check(stages: Stages, sent: list[What], choices: random.Random) -> None:
    """Deliver events and compare what is there with the model."""
    tenant_id, before = TenantId(f"tenant{next(_TENANTS)}"), len(stages.embedder.texts)
    events = [await stages.accepted(tenant_id, what) for what in sent]
    await stages.deliver([*events, *choices.choices(events, k=2)], choices)
    won = winner(events)
    document = await stages.documents.get(Reader(tenant_id), DOCUMENT)
    if won.deleted:
        assert document is None
    else:
        view = await stages.documents.chunks(Reader(tenant_id), DOCUMENT)
        text = next(
            text
            for text in TEXTS
            if hashlib.sha256(text.encode()).hexdigest() == won.content_sha256
        )
        assert document is not None and view is not None
        assert (document.version, document.pending_version, document.title) == (
            won.version,
            None,
            won.title,
        )
        assert [piece.content for piece in view.chunks] == contents(text)
        assert document.state == ("synced" if view.chunks else "empty")
    paid = Counter(stages.embedder.texts[before:])
    known = {
        piece for what in sent if what.text is not None for piece in contents(TEXTS[what.text])
    }
    assert {text: count for text, count in paid.items() if count > 1 or text not in known} == {}


orders = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@orders
@given(sent=six, choices=st.randoms(use_true_random=True))
@example(
    sent=[What(1, 0), What(3, None), What(2, 1), What(4, 1), What(4, None), What(4, 0)],
    choices=random.Random(1),
)
@example(
    sent=[
        What(1, 0, "a"),
        What(1, 0, "b"),
        What(1, 1, large=True),
        What(1, 2, large=True),
        What(1, 4),
        What(1, 3),
    ],
    choices=random.Random(2),
)
async def test_any_order_of_events_and_stages_ends_as_the_greatest_fence(
    stages: Stages, sent: list[What], choices: random.Random
) -> None:
    await check(stages, sent, choices)


@orders
@given(order=st.permutations(range(6)))
async def test_every_whole_order_ends_the_same(stages: Stages, order: list[int]) -> None:
    """Each event through all stages before the next one, as a single worker would."""
    sent = [
        What(1, 0),
        What(2, None),
        What(2, 1),
        What(3, 2, "a"),
        What(3, 2, "b"),
        What(3, 1, large=True),
    ]
    tenant_id, before = TenantId(f"tenant{next(_TENANTS)}"), len(stages.embedder.texts)
    events = [await stages.accepted(tenant_id, what) for what in sent]
    for index in order:
        await stages.deliver([events[index]], random.Random(0))
    won, document = winner(events), await stages.documents.get(Reader(tenant_id), DOCUMENT)
    assert document is not None and (document.version, document.pending_version) == (
        won.version,
        None,
    )
    assert max(Counter(stages.embedder.texts[before:]).values(), default=0) <= 1


async def test_content_that_a_newer_version_let_go_of_is_superseded_and_no_dead_letter(
    stages: Stages,
) -> None:
    tenant_id = TenantId("late")
    old, new = [
        await stages.accepted(tenant_id, What(version, text, large=True))
        for version, text in ((1, 0), (2, 1))
    ]
    get = stages.blobs.get

    async def overtaken(*arguments: Any) -> bytes:
        stages.blobs.get = get  # type: ignore[method-assign]
        await stages.deliver([new], random.Random(0))
        return await get(*arguments)

    stages.blobs.get = overtaken  # type: ignore[method-assign]
    assert await stages.run(old) == Finished(superseded=True)


async def test_large_content_of_an_equal_version_stays_until_it_is_known_who_wins(
    stages: Stages,
) -> None:
    tenant_id = TenantId("equal")
    events = [await stages.accepted(tenant_id, What(1, text, large=True)) for text in (0, 1)]
    for event in sorted(events, key=lambda event: event.data.fence.digest):
        await stages.deliver([event], random.Random(0))
    document, view = (
        await stages.documents.get(Reader(tenant_id), DOCUMENT),
        await stages.documents.chunks(Reader(tenant_id), DOCUMENT),
    )
    assert document is not None and document.version == 1 and view is not None
    text = next(
        text
        for text in TEXTS
        if hashlib.sha256(text.encode()).hexdigest() == winner(events).content_sha256
    )
    assert [piece.content for piece in view.chunks] == contents(text)
