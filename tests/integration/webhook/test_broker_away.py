"""Writes while the broker is killed and comes back: every 202 ends synced, everything else was a
503 in bounded time.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from livedex.pipeline.http.body_budget import WAIT_TIMEOUT_S
from livedex.pipeline.ingest.request_ingester import ACCEPT_TIMEOUT_S
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.server import KafkaServer
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import (
    InProcessInstallation,
    open_installation,
    settings_for,
)
from tests.support.pipelines.stage_runner import kafka_settings

SLACK_S = 5.0


async def write(
    site: InProcessInstallation,
    writer: int,
    stop: asyncio.Event,
    taken: dict[str, str],
    refused: list[str],
) -> None:
    number = 0
    while not stop.is_set():
        name = f"{writer}/{number}"
        begin = time.monotonic()
        answer = await site.http.put(
            f"/v1/documents/{name}", json={"text": paragraph(writer * 10_000 + number)}
        )
        assert time.monotonic() - begin < ACCEPT_TIMEOUT_S + WAIT_TIMEOUT_S + SLACK_S
        if answer.status_code == 202:
            taken[name] = answer.json()["token"]
        else:
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["retry-after"]) >= 1
            refused.append(name)
        number += 1
        await asyncio.sleep(0.05)


async def test_every_202_ends_synced_and_the_rest_was_a_503(
    kafka_server: KafkaServer,
    owner_url: str,
    tmp_path: Path,
    embedder: EmbeddingServer,
    clean_environment: None,
) -> None:
    taken: dict[str, str] = {}
    refused: list[str] = []
    async with open_installation(
        settings_for(owner_url, kafka_server.bootstrap, embedder, kafka_settings()),
        tmp_path,
        embedder,
    ) as site:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for writer in range(4):
                group.create_task(write(site, writer, stop, taken, refused))
            while not taken:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(kafka_server.kill)
            while not refused:
                await asyncio.sleep(0.05)
            before = len(taken)
            await asyncio.to_thread(kafka_server.restart)
            while len(taken) < before + 20:
                await asyncio.sleep(0.05)
            stop.set()
        await site.ended()
        assert {await site.state(token) for token in taken.values()} == {"synced"}
        assert await site.s.operations.count_dead_letters() == 0
        again = [(await site.put(name, "once more"))["token"] for name in refused[:5]]
        await site.ended()
        assert {await site.state(token) for token in again} == {"synced"}
