"""From a write over HTTP to whoever waits for it, on both brokers: subscribers are told, and
tokens end however their change ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from livedex.app.notify_role import open_notification_workers
from livedex.pipeline.model import DEFAULT_TENANT
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.subscriber import SubscriberSettings
from livedex.pipeline.store.dead_letter_store import DeadLetterStore
from livedex.pipeline.store.notification_outbox import NotificationOutbox
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.http.scripted_subscriber import SECRET, SubscriberServer
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import (
    InProcessInstallation,
    gather_list,
    open_installation,
)

A, B = paragraph(1), paragraph(2)
REFUSED = "x" * 900
LONGEST_S = 30


@pytest.fixture
def receiver() -> Iterator[SubscriberServer]:
    with SubscriberServer() as server:
        yield server


@pytest.fixture
def told(
    settings: Settings, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """The installation's settings, with a subscriber that is told and one that reads."""
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    shop = SubscriberSettings(
        name="shop",
        url=f"{receiver.address}/hook",
        secret_env=("SHOP_SECRET",),
        allow_hosts=(receiver.host,),
    )
    return settings.model_copy(
        update={"subscriber": (shop, SubscriberSettings(name="warehouse", events=("synced",)))}
    )


@asynccontextmanager
async def notified(site: InProcessInstallation) -> AsyncIterator[None]:
    """The role `notify` beside an installation, for as long as the block lasts."""
    stop = asyncio.Event()
    async with open_notification_workers(site.s) as couriers:
        running = [asyncio.create_task(courier.run(stop)) for courier in couriers]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*running)


def refuse(embedder: EmbeddingServer) -> None:
    """Let the provider take everything but `REFUSED`."""
    embedder.answer = lambda texts, number: (
        Reply(400, {"error": {"message": "no"}}) if any("xxxx" in text for text in texts) else None
    )


async def test_every_end_of_a_change_is_told_with_the_version_that_its_writer_knows(
    told: Settings, tmp_path: Path, embedder: EmbeddingServer, receiver: SubscriberServer
) -> None:
    refuse(embedder)
    async with open_installation(told, tmp_path, embedder) as site, notified(site):
        first = await site.put("d", A, collection="notes")
        await receiver.told(1)
        second = await site.delete("d")
        await receiver.told(2)
        third = await site.put("e", REFUSED)
        deliveries = await receiver.told(3)
        assert receiver.said == [
            ("livedex.synced", "d", first["version"]),
            ("livedex.deleted", "d", second["version"]),
            ("livedex.dead", "e", third["version"]),
        ]
        assert [delivery.event["data"]["collection"] for delivery in deliveries] == [
            "notes",
            "notes",
            "default",
        ]
        [letter] = await DeadLetterStore(site.s.database).all()
        assert deliveries[2].event["data"]["letter_id"] == letter.letter_id
        assert embedder.embedded_documents == [A], "telling costs nothing at the embedder"
        assert not any(
            word in delivery.body.decode()
            for delivery in deliveries
            for word in (*A.split()[:3], "xxxx")
        )
        assert receiver.unsigned == []
        read = await notices_of(site, "warehouse")
        assert read == [("synced", "d", first["version"])]


async def notices_of(site: InProcessInstallation, name: str) -> list[tuple[Any, ...]]:
    """Kind, document and version of what waits for a subscriber that reads."""
    return [
        (each.kind, each.document_id, each.version)
        for each in await NotificationOutbox(site.s.database).read(DEFAULT_TENANT, name, 100)
    ]


async def test_a_change_that_comes_again_is_told_once(
    told: Settings, tmp_path: Path, embedder: EmbeddingServer, receiver: SubscriberServer
) -> None:
    async with open_installation(told, tmp_path, embedder) as site, notified(site):
        await gather_list(*(site.put("d", A, version=3) for _ in range(8)))
        await site.ended()
        await site.put("d", A, version=3)
        await site.put("d", B, version=2)
        await site.ended()
        await site.put("e", B, version=1)
        await receiver.told(2)
        assert receiver.said == [("livedex.synced", "d", 3), ("livedex.synced", "e", 1)]
        assert sorted(embedder.embedded_documents) == sorted([A, B])


async def test_an_outage_of_the_subscriber_holds_up_no_document(
    told: Settings, tmp_path: Path, embedder: EmbeddingServer, receiver: SubscriberServer
) -> None:
    receiver.answer = lambda _: 503
    async with open_installation(told, tmp_path, embedder) as site, notified(site):
        tokens = [(await site.put(f"d{n}", f"{A} {n}"))["token"] for n in range(5)]
        assert (
            await gather_list(*(site.state(token, LONGEST_S) for token in tokens)) == ["synced"] * 5
        )
        await site.ended()
        waiting = await site.s.operations.pending_notifications()
        assert waiting is not None and waiting.waiting >= 5
        assert 'livedex_stage_waiting{stage="notify"}' in (await site.http.get("/metrics")).text
        receiver.answer = lambda _: 204
        async with asyncio.timeout(LONGEST_S):
            # another thread's
            while {said[1] for said in receiver.said[1:]} != {f"d{n}" for n in range(5)}:
                await asyncio.sleep(0.02)


async def test_a_search_after_a_token_answers_as_soon_as_its_change_has_ended_however_it_ends(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    refuse(embedder)
    async with open_installation(settings, tmp_path, embedder, stages=()) as site:
        newer, late = (
            (await site.put("d", A, version=5))["token"],
            (await site.put("d", B, version=3))["token"],
        )
        dead = (await site.put("e", REFUSED, version=1))["token"]
    async with open_installation(settings, tmp_path, embedder) as site:
        begin = time.monotonic()
        answers = await gather_list(*(search_after(site, token) for token in (newer, late, dead)))
        assert time.monotonic() - begin < LONGEST_S, "none waited until its time was over"
        assert [[hit["document_id"] for hit in answer["hits"]] for answer in answers[:1]] == [["d"]]
        assert await gather_list(*(site.state(token) for token in (newer, late, dead))) == [
            "synced",
            "superseded",
            "dead",
        ]
        again = (await site.put("e", B, version=2))["token"]
        assert [
            hit["document_id"] for hit in (await search_after(site, again, "Marker2"))["hits"]
        ] == ["e"]
        assert await site.state(dead) == "superseded", "a newer version has overtaken the dead one"
        assert sorted(embedder.embedded_documents) == sorted([A, B])


async def search_after(
    site: InProcessInstallation, token: str, word: str = "Marker1"
) -> dict[str, Any]:
    """A search that waits for a change."""
    answer = await site.http.post(
        "/v1/search", json={"query": word, "mode": "keyword", "after": token, "wait_s": LONGEST_S}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
