"""Batches, retries, and the search for the text that spoils a batch."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from livedex.pipeline.embedding.embedder import Vectors
from livedex.pipeline.embedding.provider_errors import TextDeniedError, provider_error
from livedex.pipeline.errors import (
    OutageError,
    RateLimitedError,
    RejectedError,
    RetryableError,
    TooLargeError,
)
from tests.unit.embedding.asking import (
    assert_embeddings,
    collect_embeddings,
    contains_poison,
    counting,
    fail_first,
    fail_when,
    is_probe,
    service_on,
)
from tests.unit.embedding.fake_time import START, FakeClock

Passages = Callable[[int], list[str]]


def broken() -> Exception:
    return RetryableError("HTTP 500")


def refused() -> Exception:
    return RejectedError("HTTP 400")


async def test_a_batch_holds_as_many_texts_as_the_limits_allow(time: FakeClock) -> None:
    embedder = counting(max_texts=100, max_characters=1_000, max_text_characters=200)
    texts = [f"{n:030}" for n in range(250)] + [f"{n:0190}" for n in range(40)]
    assert_embeddings(
        await time.run(collect_embeddings(service_on(embedder, time), texts)), texts, embedder
    )
    assert all(len(sent) <= 100 and sum(map(len, sent)) <= 1_000 for sent in embedder.sent)
    assert embedder.requests <= math.ceil(sum(map(len, texts)) / 1_000) + 1


async def test_a_text_beyond_the_models_limit_is_refused_before_anything_is_sent(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting(max_text_characters=200)
    texts = [*passages(2), "x" * 201]
    got = await time.run(collect_embeddings(service_on(embedder, time), texts))
    assert_embeddings(got, texts, embedder, but=[2])
    assert "a text of 201 characters is too long" in str(got.refused[2])
    assert embedder.sent == [texts[:2]]


async def test_blank_texts_are_never_sent(time: FakeClock) -> None:
    embedder = counting()
    got = await time.run(
        collect_embeddings(service_on(embedder, time), ["a", "", " \n", "\u200b", "b"])
    )
    assert embedder.sent == [["a", "b"]]
    assert sorted(got.vectors) == [0, 4]
    assert sorted(got.refused) == [1, 2, 3]


async def test_no_texts_cost_no_request(time: FakeClock) -> None:
    embedder = counting()
    assert (await time.run(collect_embeddings(service_on(embedder, time), []))).answers == 0
    assert embedder.requests == 0


async def test_several_requests_are_under_way_at_once_and_each_answer_is_handed_on_as_it_comes(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting(max_texts=2, concurrency=3)
    doors = [asyncio.Event() for _ in range(4)]

    async def script(texts: Sequence[str], number: int) -> None:
        await doors[number].wait()

    embedder.script = script
    texts = passages(8)
    stream = service_on(embedder, time).embed_documents(texts)
    first = asyncio.ensure_future(anext(stream))
    await time.settle()
    assert embedder.requests == 3
    doors[1].set()
    assert [index for index, _ in await first] == [2, 3]
    await time.settle()
    assert embedder.requests == 4
    for door in doors:
        door.set()
    assert sorted([index async for answer in stream for index, _ in answer]) == [0, 1, 4, 5, 6, 7]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
async def test_an_outage_of_some_requests_is_over_soon_and_nothing_is_refused(
    time: FakeClock, passages: Passages, count: int
) -> None:
    embedder = counting()
    embedder.script = fail_first(count, broken)
    texts = passages(20)
    assert_embeddings(
        await time.run(collect_embeddings(service_on(embedder, time), texts)), texts, embedder
    )


@pytest.mark.parametrize("texts_at_once", [1, 7, 60])
async def test_every_third_request_fails_and_all_is_embedded_once(
    time: FakeClock, passages: Passages, texts_at_once: int
) -> None:
    embedder = counting(max_texts=texts_at_once, concurrency=4)

    async def script(texts: Sequence[str], number: int) -> None:
        if number % 3 == 0:
            raise broken()

    embedder.script = script
    texts = passages(60)
    assert_embeddings(
        await time.run(collect_embeddings(service_on(embedder, time), texts)), texts, embedder
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows: rows[:-1],
        lambda rows: np.vstack([rows, rows[:1]]),
        lambda rows: rows[:, :10],
        lambda rows: rows * np.nan,
        lambda rows: rows * 0,
        lambda rows: rows * np.inf,
    ],
    ids=["too few", "too many", "shorter", "NaN", "zeros", "infinite"],
)
async def test_a_wrong_answer_of_any_embedder_is_asked_for_again(
    time: FakeClock, passages: Passages, wrong: Callable[[Vectors], Vectors]
) -> None:
    embedder = counting()
    texts = passages(5)

    async def script(sent: Sequence[str], number: int) -> Vectors | None:
        with np.errstate(invalid="ignore"):
            return wrong(np.stack([embedder.vector(text) for text in sent])) if number < 2 else None

    embedder.script = script
    assert_embeddings(
        await time.run(collect_embeddings(service_on(embedder, time, dimensions=32), texts)),
        texts,
        embedder,
    )
    assert embedder.requests == 3


async def test_nothing_is_sent_before_the_time_that_the_provider_names_whoever_was_told(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting(max_texts=1, concurrency=3)
    sent_at: list[float] = []

    async def script(texts: Sequence[str], number: int) -> None:
        sent_at.append(time.now_s)
        if number == 1:
            raise RateLimitedError("HTTP 429", retry_after_s=3.0)

    embedder.script = script
    texts = passages(6)
    assert_embeddings(
        await time.run(collect_embeddings(service_on(embedder, time), texts)), texts, embedder
    )
    assert len([at for at in sent_at if at < 3.0]) == 2
    assert len(sent_at) == 7


@pytest.mark.parametrize("named", [2.0, None])
async def test_one_who_asks_for_patience_is_asked_again_with_growing_pauses(
    time: FakeClock, passages: Passages, named: float | None
) -> None:
    embedder = counting()
    embedder.script = fail_first(4, lambda: RateLimitedError("HTTP 429", retry_after_s=named))
    texts = passages(3)
    assert_embeddings(
        await time.run(collect_embeddings(service_on(embedder, time), texts)), texts, embedder
    )
    assert embedder.requests == 5
    assert time.now_s >= 4 * (named or 0.4)


async def test_one_who_asks_for_patience_for_ever_is_away_and_no_text_is_to_blame(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_when(
        lambda: RateLimitedError("HTTP 429"), lambda texts: not is_probe(texts)
    )
    service = service_on(embedder, time)
    for _ in range(5):
        got = await time.run(collect_embeddings(service, passages(1)))
        assert got.outage is not None
        assert not got.refused
        await time.advance(30)
    await service.close()


async def test_a_long_time_to_wait_is_an_outage_and_nobody_sleeps_on_it(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_first(1, lambda: RateLimitedError("HTTP 429", retry_after_s=30.0))
    service, texts = service_on(embedder, time), passages(3)
    got = await time.run(collect_embeddings(service, texts))
    assert got.outage is not None
    assert got.outage.retry_after_s == pytest.approx(30.0)
    assert time.now_s == 0.0
    await time.advance(29.9)
    assert (await collect_embeddings(service, texts)).outage is not None
    assert embedder.requests == 1
    await time.advance(0.2)
    assert_embeddings(await time.run(collect_embeddings(service, texts)), texts, embedder)


async def test_a_request_too_large_is_halved_and_later_ones_stay_small(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: TooLargeError("HTTP 413"), lambda texts: len(texts) > 3)
    service = service_on(embedder, time)
    texts = passages(80)
    assert_embeddings(await time.run(collect_embeddings(service, texts[:40])), texts[:40], embedder)
    failed = sum(len(sent) > 3 for sent in embedder.sent)
    assert failed <= 5
    before = embedder.requests
    assert_embeddings(
        await time.run(collect_embeddings(service, texts[40:50])), texts[40:50], embedder
    )
    assert embedder.requests - before == 5


async def test_a_smaller_size_grows_back_when_all_goes_well(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_first(3, lambda: TooLargeError("HTTP 413"))
    service = service_on(embedder, time)
    texts = passages(2_000)
    assert_embeddings(await time.run(collect_embeddings(service, texts)), texts, embedder)
    assert len(embedder.sent[4]) <= 32
    assert max(len(sent) for sent in embedder.sent[4:]) > 32


async def test_a_single_text_too_large_costs_itself_and_not_the_size_of_the_others(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: TooLargeError("HTTP 400"), contains_poison)
    service = service_on(embedder, time)
    texts = [*passages(20), "POISON", *passages(40)[20:]]
    got = await time.run(collect_embeddings(service, texts))
    assert_embeddings(got, texts, embedder, but=[20])
    assert "a text of 6 characters" in str(got.refused[20])
    before = embedder.requests
    await time.run(collect_embeddings(service, [text + "again" for text in passages(100)]))
    assert embedder.requests - before == 1


@pytest.mark.parametrize("size", [4, 8, 20, 60, 100, 256])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 0.99])
async def test_one_refused_text_is_found_in_few_requests(
    time: FakeClock, passages: Passages, size: int, place: float
) -> None:
    embedder = counting()
    embedder.script = fail_when(refused, contains_poison)
    texts = passages(size)
    bad = int(size * place)
    texts[bad] = "this text is POISON to the model, which refuses every request that holds it"
    got = await time.run(collect_embeddings(service_on(embedder, time), texts))
    assert_embeddings(got, texts, embedder, but=[bad])
    assert "HTTP 400" in str(got.refused[bad])
    assert got.refused[bad].reason == "embedding_refused"
    assert embedder.requests <= 2 * math.log2(size) + 2


@pytest.mark.parametrize("fault", [refused, broken], ids=["400", "500"])
@pytest.mark.parametrize(
    "bad", [[0], [19], [0, 19], [3, 4, 5], [7, 30, 31, 59], list(range(0, 60, 7))]
)
async def test_every_text_that_fails_alone_is_refused_and_no_other(
    time: FakeClock, passages: Passages, fault: Callable[[], Exception], bad: list[int]
) -> None:
    embedder = counting(max_texts=25, concurrency=4)
    embedder.script = fail_when(fault, contains_poison)
    texts = passages(60)
    for index in bad:
        texts[index] += " POISON"
    got = await time.run(collect_embeddings(service_on(embedder, time), texts))
    assert_embeddings(got, texts, embedder, but=bad)
    assert sorted(got.refused) == bad
    assert time.now_s < 60


async def test_a_text_that_makes_a_wrong_answer_is_refused(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()

    async def script(texts: Sequence[str], number: int) -> Vectors | None:
        rows = np.stack([embedder.vector(text) for text in texts])
        for row, text in zip(rows, texts, strict=True):
            row[3] = np.nan if "POISON" in text else row[3]
        return rows if contains_poison(texts) else None

    embedder.script = script
    texts = [*passages(10), "POISON"]
    got = await time.run(collect_embeddings(service_on(embedder, time), texts))
    assert_embeddings(got, texts, embedder, but=[10])
    assert "not finite" in str(got.refused[10])


async def test_a_lone_text_gets_a_minute_before_it_is_to_blame_for_errors(time: FakeClock) -> None:
    embedder = counting()
    embedder.script = fail_when(broken, contains_poison)
    got = await time.run(collect_embeddings(service_on(embedder, time), ["POISON"]))
    assert list(got.refused) == [0]
    assert 60 <= time.now_s < 120


async def test_errors_for_all_documents_are_an_outage_though_probes_are_answered(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_when(broken, lambda texts: not is_probe(texts))
    service, texts = service_on(embedder, time), passages(7)
    for _ in range(4):
        got = await time.run(collect_embeddings(service, texts))
        assert got.outage is not None
        assert (got.vectors, got.refused) == ({}, {})
        await time.advance(20)
    embedder.script = fail_first(0, broken)
    assert_embeddings(await time.run(collect_embeddings(service, texts)), texts, embedder)


@pytest.mark.parametrize("begins", range(1, 16))
@pytest.mark.parametrize(
    "outage",
    [broken, refused, lambda: OutageError("embedder", "HTTP 401")],
    ids=["500", "400", "401"],
)
async def test_an_outage_that_begins_in_the_middle_refuses_nothing(
    time: FakeClock, passages: Passages, begins: int, outage: Callable[[], Exception]
) -> None:
    """Whatever request it begins at, those of the search and of the trial included."""
    embedder = counting(max_texts=16)
    texts = passages(40)
    texts[21] += " POISON"
    over = False

    async def script(sent: Sequence[str], number: int) -> None:
        if contains_poison(sent):
            raise refused()
        if number >= begins and not over:
            raise outage()

    embedder.script = script
    service = service_on(embedder, time)
    first = await time.run(collect_embeddings(service, texts))
    assert set(first.refused) <= {21}
    await time.advance(40)
    over = True
    await time.advance(40)
    rest = [
        index for index in range(40) if index not in first.vectors and index not in first.refused
    ]
    second = await time.run(collect_embeddings(service, [texts[index] for index in rest]))
    assert second.outage is None
    assert {rest[index] for index in second.refused} | set(first.refused) == {21}
    assert len(embedder.texts) == len(set(embedder.texts)) == 39


async def test_answers_under_way_when_an_outage_begins_are_handed_on(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting(max_texts=1, concurrency=2)
    slow = asyncio.Event()

    async def script(texts: Sequence[str], number: int) -> None:
        if number == 0:
            await slow.wait()
        else:
            raise OutageError("embedder", "HTTP 401")

    embedder.script = script
    service = service_on(embedder, time)
    call = asyncio.ensure_future(collect_embeddings(service, passages(5)))
    await time.settle()
    slow.set()
    got = await time.run(call)
    assert list(got.vectors) == [0]
    assert got.outage is not None
    assert [is_probe(texts) for texts in embedder.sent] == [False, False, True]
    await service.close()


async def test_an_unexpected_embedder_error_is_an_outage_and_no_document_s_fault(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: ZeroDivisionError("a bug"))
    service = service_on(embedder, time)
    got = await time.run(collect_embeddings(service, passages(3)))
    assert got.refused == {} and got.vectors == {}
    assert "ZeroDivisionError: a bug" in str(got.outage)
    await service.close()


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        lambda: provider_error(
            403, {}, b"<html><title>Blocked</title>Request 17 was blocked</html>", now=START
        ),
        lambda: provider_error(401, {}, b"", now=START),
        lambda: provider_error(404, {}, b"{}", now=START),
        lambda: provider_error(406, {}, b"not acceptable", now=START),
        lambda: provider_error(302, {}, b"", now=START),
        lambda: provider_error(451, {}, b"", now=START),
        lambda: provider_error(402, {}, b"", now=START),
        lambda: provider_error(429, {}, b"", now=START),
        lambda: provider_error(429, {}, b'{"error": {"code": "insufficient_quota"}}', now=START),
        lambda: provider_error(503, {}, b"", now=START),
        lambda: OutageError("embedder", "no such path"),
        lambda: ValueError("what is that"),
    ],
)
async def test_whatever_is_said_to_one_text_alone_is_about_that_text(
    time: FakeClock, passages: Passages, error: Callable[[], Exception], alone: bool
) -> None:
    """A firewall before the provider dislikes the words of one text; its probe is answered."""
    embedder = counting()
    embedder.script = fail_when(error, contains_poison)
    service = service_on(embedder, time)
    # these are blamed only if others are embedded
    alone = alone and not getattr(TextDeniedError(error()), "needs_other_success", False)
    texts = (
        ["POISON alone"] if alone else [*passages(20), "POISON among others", *passages(40)[20:]]
    )
    got = await time.run(collect_embeddings(service, texts))
    assert_embeddings(
        got, texts, embedder, but=[texts.index(next(text for text in texts if "POISON" in text))]
    )
    [refused] = got.refused.values()
    assert "refused by the model" in str(refused) and "POISON" not in str(refused)
    assert "check LIVEDEX" not in str(refused), "no setting is to blame"
    assert service.health.status == "ok"
    assert embedder.requests < 150
    await service.close()


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_is_said_to_everybody_is_an_outage_after_one_probe(
    time: FakeClock, passages: Passages, status: int
) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: provider_error(status, {}, b"", now=START))
    service = service_on(embedder, time)
    got = await time.run(collect_embeddings(service, passages(9)))
    assert got.outage is not None and got.refused == {} and embedder.requests == 2
    assert f"HTTP {status}" in service.health.reason
    await service.close()


@pytest.mark.parametrize("status", [402, 429])
async def test_no_quota_blames_no_text_though_a_probe_is_small_enough_to_be_answered(
    time: FakeClock, passages: Passages, status: int
) -> None:
    embedder = counting()
    embedder.script = fail_when(
        lambda: provider_error(status, {}, b"", now=START), lambda texts: not is_probe(texts)
    )
    service = service_on(embedder, time)
    got = await time.run(collect_embeddings(service, passages(9)))
    assert got.outage is not None and got.refused == {}
    await service.close()


@pytest.mark.parametrize(
    "status", [408, 409, 424, 425, 460, 499, 500, 502, 503, 504, 520, 529, 599]
)
async def test_a_server_that_cannot_do_it_now_is_waited_for(
    time: FakeClock, passages: Passages, status: int
) -> None:
    embedder = counting()
    embedder.script = fail_when(lambda: provider_error(status, {}, b"", now=START))
    service = service_on(embedder, time)
    got = await time.run(collect_embeddings(service, passages(8)))
    assert got.outage is not None and got.refused == {}
    await time.advance(12)
    embedder.script = fail_when(RuntimeError, lambda texts: False)
    await time.advance(16)
    assert_embeddings(
        await time.run(collect_embeddings(service, passages(8))), passages(8), embedder
    )
    await service.close()


async def test_a_caller_that_leaves_ends_its_requests(time: FakeClock, passages: Passages) -> None:
    embedder = counting(max_texts=1, concurrency=2)
    cancelled: list[int] = []

    async def script(texts: Sequence[str], number: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    embedder.script = script
    call = asyncio.ensure_future(collect_embeddings(service_on(embedder, time), passages(5)))
    await time.settle()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await time.settle()
    assert sorted(cancelled) == [0, 1]


async def test_after_stop_nothing_is_sent_and_what_is_under_way_ends(
    time: FakeClock, passages: Passages
) -> None:
    embedder = counting(max_texts=1)
    service = service_on(embedder, time)

    async def script(texts: Sequence[str], number: int) -> None:
        service.stop_sending()

    embedder.script = script
    got = await time.run(collect_embeddings(service, passages(3)))
    assert list(got.vectors) == [0]
    assert got.outage is not None
    assert service.health.status == "ok"
