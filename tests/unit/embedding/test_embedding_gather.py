"""Texts of many callers: together, once, and stored before anybody hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest

from livedex.pipeline.costs.charges import EmbeddingCharges, VersionAccount
from livedex.pipeline.costs.token_usage import report_tokens
from livedex.pipeline.embedding.embedder import Vector
from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.model import DocumentId, Fence, GenerationId, PassageId, TenantId
from livedex.pipeline.stages.passage_embedder import BatchedPassageEmbedder
from tests.unit.embedding.asking import contains_poison, counting, fail_when, service_on
from tests.unit.embedding.fake_time import FakeClock

Passages = Callable[[int], list[str]]


class Shelf:
    """A store that can be away.

    Attributes:
        stored: vectors by key.
        calls: the keys of each call.
        charges: of each call.
        failures: raised by the next calls.
    """

    def __init__(self) -> None:
        self.stored: dict[int, Vector] = {}
        self.calls: list[list[int]] = []
        self.charges: list[EmbeddingCharges] = []
        self.failures: list[Exception] = []
        self.door: asyncio.Event | None = None

    async def upsert_vectors(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        vectors: Mapping[PassageId, Vector],
        *,
        durable: bool = True,
        charges: EmbeddingCharges | None = None,
    ) -> None:
        assert charges is not None and charges.by_passage.keys() == vectors.keys()
        self.charges.append(charges)
        self.calls.append(list(vectors))
        if self.door is not None:
            await self.door.wait()
        if self.failures:
            raise self.failures.pop(0)
        for key, vector in vectors.items():
            assert key not in self.stored
            self.stored[key] = vector


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def gatherer_on(embedder: FakeEmbedder, time: FakeClock, shelf: Shelf) -> BatchedPassageEmbedder:
    return BatchedPassageEmbedder(service_on(embedder, time), shelf, clock=time.clock)


async def gather(
    gatherer: BatchedPassageEmbedder, items: Sequence[tuple[int, str]]
) -> dict[PassageId, RejectedError]:
    """Embed the passages of one caller."""
    return await gatherer.embed_available(
        TenantId("t"), GenerationId(1), [(PassageId(n), text) for n, text in items]
    )


async def test_texts_of_callers_at_the_same_time_are_one_request(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(), passages(30)
    gatherer = gatherer_on(embedder, time, shelf)
    calls = [gather(gatherer, [(n, texts[n]), (n + 1, texts[n + 1])]) for n in range(29)]
    assert await time.run(asyncio.gather(*calls)) == [{}] * 29
    assert embedder.requests == 1
    assert sorted(shelf.stored) == list(range(30))


async def test_a_key_under_way_is_not_sent_again(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(), passages(1)
    door = asyncio.Event()

    async def script(sent: Sequence[str], number: int) -> None:
        await door.wait()

    embedder.script = script
    gatherer = gatherer_on(embedder, time, shelf)
    first = asyncio.ensure_future(gather(gatherer, [(0, texts[0])]))
    await time.advance(0.1)
    second = asyncio.ensure_future(gather(gatherer, [(0, texts[0])]))
    await time.settle()
    door.set()
    await time.run(asyncio.gather(first, second))
    assert embedder.texts == texts


async def test_who_looked_before_the_vector_was_stored_does_not_pay_again(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(), passages(1)
    gatherer = gatherer_on(embedder, time, shelf)
    for _ in range(2):
        await time.run(gather(gatherer, [(0, texts[0])]))
    assert embedder.texts == texts


async def test_while_all_requests_are_under_way_the_next_one_grows(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(concurrency=2), passages(40)

    async def script(sent: Sequence[str], number: int) -> None:
        await time.sleep(1.0)

    embedder.script = script
    gatherer = gatherer_on(embedder, time, shelf)

    async def arrive(n: int) -> None:
        await time.sleep(n * 0.04)
        await gather(gatherer, [(n, texts[n])])

    await time.run(asyncio.gather(*(arrive(n) for n in range(40))))
    assert sorted(embedder.texts) == sorted(texts)
    assert embedder.requests <= 6


async def test_nobody_is_told_before_the_vectors_are_stored(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    shelf.door = asyncio.Event()
    gatherer = gatherer_on(counting(), time, shelf)
    call = asyncio.ensure_future(gather(gatherer, [(0, passages(1)[0])]))
    await time.advance(5)
    assert shelf.calls == [[0]]
    assert not call.done()
    shelf.door.set()
    assert await time.run(call) == {}


async def test_each_answer_is_stored_while_others_are_still_awaited(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(max_texts=2), passages(4)
    door = asyncio.Event()

    async def script(sent: Sequence[str], number: int) -> None:
        if number == 1:
            await door.wait()

    embedder.script = script
    gatherer = gatherer_on(embedder, time, shelf)
    call = asyncio.ensure_future(gather(gatherer, list(enumerate(texts))))
    await time.advance(0.5)
    assert sorted(shelf.stored) == [0, 1]
    assert not call.done()
    door.set()
    await time.run(call)
    assert sorted(shelf.stored) == [0, 1, 2, 3]


async def test_a_refused_text_concerns_only_those_who_asked_for_it(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(), passages(3)
    embedder.script = fail_when(lambda: RejectedError("HTTP 400"), contains_poison)
    gatherer = gatherer_on(embedder, time, shelf)
    wanted = [[(0, texts[0])], [(9, "POISON")], [(1, texts[1]), (9, "POISON"), (2, texts[2])]]
    good, bad, both = await time.run(asyncio.gather(*(gather(gatherer, items) for items in wanted)))
    assert good == {}
    assert list(bad) == list(both) == [9]
    assert sorted(shelf.stored) == [0, 1, 2]


async def test_an_outage_reaches_only_those_whose_texts_were_not_embedded(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(max_texts=1), passages(2)

    async def script(sent: Sequence[str], number: int) -> None:
        if number > 0:
            raise OutageError("embedder", "HTTP 401")

    embedder.script = script
    gatherer = gatherer_on(embedder, time, shelf)
    first, second = await time.run(
        asyncio.gather(
            *(gather(gatherer, [(n, text)]) for n, text in enumerate(texts)), return_exceptions=True
        )
    )
    assert first == {}
    assert isinstance(second, OutageError)


async def test_a_caller_that_is_cancelled_takes_nothing_from_the_others(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(), passages(2)
    door = asyncio.Event()

    async def script(sent: Sequence[str], number: int) -> None:
        await door.wait()

    embedder.script = script
    gatherer = gatherer_on(embedder, time, shelf)
    leaving = asyncio.ensure_future(gather(gatherer, list(enumerate(texts))))
    staying = asyncio.ensure_future(gather(gatherer, [(1, texts[1])]))
    await time.advance(0.1)
    leaving.cancel()
    await time.settle()
    door.set()
    assert await time.run(staying) == {}
    assert leaving.cancelled()
    assert sorted(shelf.stored) == [0, 1]


async def test_vectors_that_cannot_be_stored_are_kept_and_not_paid_for_again(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(), passages(3)
    gatherer = gatherer_on(embedder, time, shelf)
    shelf.failures = [OutageError("database", "away")] * 2
    with pytest.raises(OutageError, match="away"):
        await time.run(gather(gatherer, list(enumerate(texts))))
    with pytest.raises(OutageError, match="away"):
        await time.run(
            gather(
                gatherer,
                [(7, "a text that must not be paid for while the last ones are not stored")],
            )
        )
    assert await time.run(gather(gatherer, list(enumerate(texts)))) == {}
    assert embedder.texts == texts
    assert sorted(shelf.stored) == [0, 1, 2]


async def test_kept_vectors_are_stored_though_nobody_asks(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    gatherer = gatherer_on(counting(), time, shelf)
    shelf.failures = [RetryableError("deadlock")] * 4
    with pytest.raises(RetryableError, match="deadlock"):
        await time.run(gather(gatherer, [(0, passages(1)[0])]))
    await time.advance(60)
    assert list(shelf.stored) == [0]


async def test_a_vector_that_can_never_be_stored_ends_alone(
    time: FakeClock, passages: Passages
) -> None:
    class PickyShelf(Shelf):
        """A store that never takes passage 5."""

        async def upsert_vectors(
            self,
            tenant_id: TenantId,
            generation_id: GenerationId,
            vectors: Mapping[PassageId, Vector],
            *,
            durable: bool = True,
            charges: EmbeddingCharges | None = None,
        ) -> None:
            if 5 in vectors:
                raise RejectedError("not storable", reason="not_storable")
            await super().upsert_vectors(
                tenant_id, generation_id, vectors, durable=durable, charges=charges
            )

    picky = PickyShelf()
    gatherer = gatherer_on(counting(), time, picky)
    refused = await time.run(gather(gatherer, list(enumerate(passages(12)))))
    assert {key: error.reason for key, error in refused.items()} == {5: "not_storable"}
    assert sorted(picky.stored) == [n for n in range(12) if n != 5]


async def test_draining_stores_what_is_under_way_and_sends_nothing_more(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder, texts = counting(max_texts=1), passages(3)
    door = asyncio.Event()

    async def script(sent: Sequence[str], number: int) -> None:
        await door.wait()

    embedder.script = script
    gatherer = gatherer_on(embedder, time, shelf)
    calls = [asyncio.ensure_future(gather(gatherer, [(n, text)])) for n, text in enumerate(texts)]
    await time.advance(0.1)
    draining = asyncio.ensure_future(gatherer.drain(30))
    await time.settle()
    door.set()
    await time.run(draining)
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert list(shelf.stored) == [0]
    assert ended[0] == {}
    assert all(isinstance(error, OutageError) for error in ended[1:])
    assert embedder.texts == texts[:1]


async def test_draining_stores_what_was_kept(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    gatherer = gatherer_on(counting(), time, shelf)
    shelf.failures = [OutageError("database", "away")] * 3
    with pytest.raises(OutageError):
        await time.run(gather(gatherer, [(0, passages(1)[0])]))
    await time.run(gatherer.drain(30))
    assert list(shelf.stored) == [0]


async def test_draining_ends_at_its_deadline(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    shelf.door = asyncio.Event()
    gatherer = gatherer_on(counting(), time, shelf)
    call = asyncio.ensure_future(gather(gatherer, [(0, passages(1)[0])]))
    await time.advance(0.1)
    await gatherer.drain(0.01)
    assert shelf.stored == {}
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_what_a_request_took_is_shared_out_over_tenants_and_charged_once(
    time: FakeClock, shelf: Shelf, passages: Passages
) -> None:
    embedder = counting()

    async def script(sent: Sequence[str], number: int) -> None:
        report_tokens(1001)

    embedder.script = script
    gatherer, texts = gatherer_on(embedder, time, shelf), passages(7)
    accounts = [VersionAccount(DocumentId(f"d{n}"), Fence(1, b"")) for n in range(2)]
    shelf.failures.append(RetryableError("not now"))  # the first tenant's vectors are kept
    await time.run(
        asyncio.gather(
            gatherer.embed(
                TenantId("a"), GenerationId(1), [(PassageId(1), texts[0])], account=accounts[0]
            ),
            gatherer.embed(
                TenantId("b"),
                GenerationId(1),
                [(PassageId(n), text) for n, text in enumerate(texts) if n > 1],
                account=accounts[1],
            ),
            return_exceptions=True,
        )
    )
    await time.run(
        gatherer.embed(
            TenantId("a"), GenerationId(1), [(PassageId(1), texts[0])], account=accounts[0]
        )
    )
    assert embedder.requests == 1
    assert sum(account.embedded.tokens for account in accounts) == 1001
    assert [account.embedded.texts for account in accounts] == [1, 5]
    assert all(account.embedded.tokens for account in accounts)
    assert [charges.is_retry for charges in shelf.charges] == [False, False, True]
