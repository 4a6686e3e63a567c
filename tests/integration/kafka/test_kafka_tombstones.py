"""A key without a value deletes its document: what was accepted before it, and nothing that came
after.
"""

from __future__ import annotations

import asyncio
import time

import orjson
import pytest

from livedex.pipeline.events.event import CHANGED, SYNCED, Changed, change_event
from livedex.pipeline.flow import StageName
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.installation import KafkaInstallation, change, text

KEY = b"acme/doc7.md"
CHUNK: tuple[StageName, ...] = ("chunk",)
EMBED: tuple[StageName, ...] = ("embed",)


async def test_a_tombstone_deletes_its_document_and_no_other(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    async with installation.process() as process:
        await process.accept(
            change("doc7.md", 1, text(1, 2)),
            change("doc70.md", 1, text(3)),
            change("doc7.md/part", 1, text(4)),
        )
        await process.ended()
        await installation.external_client.send(CHANGED, None, KEY)
        await process.ended()
        assert await process.state("doc7.md") is None and await process.chunks("doc7.md") == []
        assert (
            await process.state("doc70.md") == await process.state("doc7.md/part") == ("synced", 1)
        )
        assert await process.s.letters.all() == []
    assert len(embedder.embedded_documents) == 4


async def test_a_tombstone_deletes_what_stands_before_it_whatever_the_clock_of_its_producer_says(
    installation: KafkaInstallation,
) -> None:
    body = orjson.loads(
        change_event(Changed(tenant_id="acme", document_id="doc7.md", version=1)).encode()
    )
    body["data"]["text"] = text(1)
    async with installation.process() as process:
        await installation.external_client.send(
            CHANGED,
            orjson.dumps({key: body[key] for key in body if key not in ("accepted", "time")}),
            KEY,
        )
        await process.ended()
        assert await process.state("doc7.md") == ("synced", 1)
        await installation.external_client.send(CHANGED, None, KEY, timestamp_ms=1)
        await process.ended()
        assert await process.state("doc7.md") is None


async def test_what_comes_after_a_tombstone_stays_whatever_its_version_is(
    installation: KafkaInstallation,
) -> None:
    async with installation.process() as process:
        await process.accept(change("doc7.md", 5, text(1)))
        await installation.external_client.send(CHANGED, None, KEY)
        await process.accept(change("doc7.md", 6, text(2)))
        await process.ended()
        assert await process.state("doc7.md") == ("synced", 6)
        assert await process.chunks("doc7.md") == [text(2)]


async def test_a_tombstone_that_is_delivered_again_deletes_nothing_that_came_after_it(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    async with installation.process() as process:
        await process.accept(change("doc7.md", 1, text(1)))
        await installation.external_client.send(CHANGED, None, KEY)
        await process.accept(change("doc7.md", 2, text(2)))
        await process.ended()
    for _ in range(2):
        await installation.external_client.reset_offsets(CHANGED, "chunk")
        async with installation.process() as process:
            await process.ended()
            assert await process.state("doc7.md") == ("synced", 2)
            assert await process.chunks("doc7.md") == [text(2)]
    assert len(embedder.embedded_documents) == len(set(embedder.embedded_documents)), (
        "a text was paid for twice"
    )


async def test_a_redelivered_tombstone_of_a_fast_clock_deletes_nothing_newer(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    async with installation.process(EMBED) as process:  # nobody chunks yet
        await installation.external_client.accept_any_timestamp(CHANGED)
        await process.accept(change("doc7.md", 1, text(1)))
        await installation.external_client.send(
            CHANGED, None, KEY, timestamp_ms=int((time.time() + 1) * 1000)
        )
        await process.accept(change("doc7.md", 2, text(2)))
    await asyncio.sleep(1.1)  # now that time is past
    for _ in range(3):
        async with installation.process() as process:
            await process.ended()
            assert await process.state("doc7.md") == ("synced", 2)
            assert await process.chunks("doc7.md") == [text(2)]
        await installation.external_client.reset_offsets(CHANGED, "chunk")
    assert len(embedder.embedded_documents) == len(set(embedder.embedded_documents)), (
        "a text was paid for twice"
    )


async def test_a_tombstone_overtakes_what_was_accepted_before_it_and_is_still_under_way(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    async with installation.process(CHUNK) as process:  # nobody embeds or syncs yet
        await process.accept(change("doc7.md", 3, text(1)))
        await installation.external_client.send(CHANGED, None, KEY)
        await process.wait_stage_processed("chunk")
    async with installation.process() as process:
        await process.ended()
        assert await process.state("doc7.md") is None and await process.chunks("doc7.md") == []
    assert len(embedder.embedded_documents) <= 1


async def test_a_tombstone_of_a_document_that_nobody_knows_changes_nothing(
    installation: KafkaInstallation,
) -> None:
    async with installation.process() as process:
        await installation.external_client.send(CHANGED, None, b"acme/never-seen.md")
        await installation.external_client.send(CHANGED, None, KEY)
        await process.accept(change("doc7.md", 1, text(1)))
        await process.ended()
        assert await process.state("doc7.md") == ("synced", 1)
        assert await process.state("never-seen.md") is None
        assert await process.s.letters.all() == []
    assert len(await installation.external_client.records(SYNCED)) == 1


async def test_the_time_of_a_tombstone_decides_about_documents_that_other_systems_accept_meanwhile(
    installation: KafkaInstallation,
) -> None:
    """A change feed that lags sends tombstones with the time of the delete, to a topic that keeps
    the times of its producers.
    """
    async with installation.process() as process:
        await installation.external_client.accept_any_timestamp(CHANGED)
        await installation.external_client.send(
            CHANGED, None, KEY, timestamp_ms=int((time.time() - 60) * 1000)
        )
        await process.accept(change("doc7.md", 1, text(1)))
        await installation.external_client.send(
            CHANGED, None, KEY, timestamp_ms=int((time.time() - 60) * 1000)
        )
        await process.ended()
        assert await process.state("doc7.md") == ("synced", 1)


@pytest.mark.parametrize(
    "timestamp_ms",
    [0, 253_402_300_800_000, 2**62],
    ids=["none", "after the year 9999", "in nanoseconds"],
)
async def test_a_record_with_a_time_that_makes_no_sense_is_handled_and_its_neighbours_are_synced(
    installation: KafkaInstallation, timestamp_ms: int
) -> None:
    async with installation.process() as process:
        await installation.external_client.accept_any_timestamp(CHANGED)
        await process.accept(change("before.md", 1, text(1)))
        await process.ended()
        await installation.external_client.send(
            CHANGED, None, b"acme/before.md", timestamp_ms=timestamp_ms
        )
        await installation.external_client.send(CHANGED, b"{", timestamp_ms=timestamp_ms)
        await process.accept(change("after.md", 1, text(2)))
        await process.ended()
        assert await process.state("after.md") == ("synced", 1)
        assert await process.state("before.md") == (("synced", 1) if timestamp_ms == 0 else None)
        assert [letter.reason for letter in await process.s.letters.all()] == ["invalid_event"]
