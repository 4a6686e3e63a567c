"""Documents that take longer than a member of a group may be silent: they end once, and the group
stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from typing import Any

import pytest

from livedex.pipeline.events.event import CHANGED, CHUNKED, Changed, Event, change_event
from livedex.pipeline.stages.outcome import Finished
from livedex.pipeline.store.database import Database
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.kafka.external_client import ExternalKafkaClient, wait_until
from tests.support.kafka.installation import KafkaInstallation, change, text
from tests.support.pipelines.stage_runner import kafka_settings, stage_on_kafka

POLL_INTERVAL_S = 2.0
SLOW_S = 5.5
JOINED = logging.getLogger("aiokafka.consumer.group_coordinator")


def generations(caplog: pytest.LogCaptureFixture, group: str) -> list[int]:
    """The generations of a group that members of this process joined, in order."""
    pattern = re.compile(rf"synced group {re.escape(group)} with generation (\d+)")
    return [
        int(found[1]) for record in caplog.records if (found := pattern.search(record.getMessage()))
    ]


async def test_a_slow_document_is_embedded_once_while_two_members_go_on(
    kafka: str,
    owner_url: str,
    tmp_path: Any,
    embedder: EmbeddingServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, JOINED.name)
    kafka_given = kafka_settings(
        partitions=2, max_poll_interval_s=POLL_INTERVAL_S, session_timeout_s=6
    )
    installation = KafkaInstallation(owner_url, kafka, kafka_given, tmp_path, embedder)
    slow, small = text(1), [text(n) for n in range(2, 5)]

    def answer(texts: list[str], _: int) -> Reply | None:
        if any("Marker1 " in given for given in texts):
            time.sleep(SLOW_S)
        return None

    embedder.answer = answer
    group = f"{kafka_given.prefix}livedex.embed"
    async with installation.process() as first, installation.process() as second:
        await wait_until(lambda: len(generations(caplog, group)) >= 3)  # the first alone, then both
        before = max(generations(caplog, group))
        await first.accept(change("slow.md", 1, slow))
        await wait_until(
            lambda: any("Marker1 " in given for texts in embedder.sent for given in texts)
        )
        await first.accept(*(change(f"small{n}.md", 1, content) for n, content in enumerate(small)))
        await second.ended()
        assert [
            await first.state(name) for name in ("slow.md", "small0.md", "small1.md", "small2.md")
        ] == [("synced", 1)] * 4
        assert await installation.external_client.ended(CHUNKED, "embed")
        assert await first.s.letters.all() == []
        assert max(generations(caplog, group)) == before, "the group cycled"
    assert Counter(embedder.embedded_documents) == Counter([slow, *small])
    assert sum("Marker1 " in given for texts in embedder.sent for given in texts) == 1


async def test_a_full_window_is_polled_on_and_nothing_more_is_read(
    kafka: str,
    database: Database,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("livedex.consumers.kafka.in_flight_window.READ_AHEAD", 4)
    caplog.set_level(logging.INFO, JOINED.name)
    settings, gate, done = (
        kafka_settings(partitions=1, max_poll_interval_s=1),
        asyncio.Event(),
        list[str](),
    )
    outside = ExternalKafkaClient(kafka, settings.prefix)

    async def run(event: Event[Any]) -> Finished:
        await gate.wait()
        done.append(event.document_id)
        return Finished()

    async with stage_on_kafka(kafka, database, settings)(run) as bench:
        stage = bench.broker.stages[0]  # type: ignore[attr-defined]
        events = [
            change_event(Changed(tenant_id="t", document_id=f"d{n}", version=1, deleted=True))
            for n in range(600)
        ]
        await bench.broker.publish(events)
        await wait_until(lambda: stage.window.full)
        polled = stage.polled_at
        # twice and a half as long as a member may be silent
        await wait_until(lambda: stage.polled_at > polled + 2.5)
        assert stage.window.size < 300, "memory has a bound"
        assert (await outside.committed(CHANGED, "chunk"))[0] == 0
        gate.set()
        await bench.wait_drained()
    assert sorted(done) == sorted(event.document_id for event in events), (
        "something was lost, or done twice"
    )
    assert len(generations(caplog, f"{settings.prefix}livedex.chunk")) == 1, (
        "it lost its membership"
    )


async def test_a_second_member_takes_over_half_and_gives_it_back_and_nothing_is_lost(
    kafka: str, database: Database
) -> None:
    settings, done = kafka_settings(partitions=4), Counter[str]()
    start, names = stage_on_kafka(kafka, database, settings), [f"d{n}" for n in range(300)]

    async def run(event: Event[Any]) -> Finished:
        await asyncio.sleep(0.02)
        done[event.document_id] += 1
        return Finished()

    async with start(run) as first:
        await first.publish(*names[:100])
        async with start(run) as second:
            await first.publish(*names[100:200])
            stage = second.broker.stages[0]  # type: ignore[attr-defined]
            await wait_until(lambda: stage.window.size > 0)
        await first.publish(*names[200:])
        await first.wait_drained()
    assert set(done) == set(names)
    again = sum(times - 1 for times in done.values())
    assert again <= 2 * 4 * 16, "more came again than was under way when partitions changed hands"
