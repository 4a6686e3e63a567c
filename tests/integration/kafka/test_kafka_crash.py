"""Processes that end in the middle, and records that come more than once: the work is done once
and nothing is left in between.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedex.pipeline.events.event import CHANGED, CHUNKED, SYNCED, change_event
from tests.support.http.scripted_embedder import CLOSED_CONNECTION, EmbeddingServer, Reply
from tests.support.kafka.external_client import wait_until
from tests.support.kafka.installation import KafkaInstallation, change, text
from tests.support.pipelines.stage_runner import kafka_settings

SEEDS = tuple(range(1, 13))
RUN = ["run", "chunk", "embed", "sync"]
DYING = """
import os, sys
from livedex.consumers.kafka.broker import KafkaBroker
put, deadly = KafkaBroker.publish_step, sys.argv[1]
async def dying(self, topic, event):
    if topic == deadly:
        os._exit(9)
    await put(self, topic, event)
KafkaBroker.publish_step = dying
sys.argv = ["livedex", *sys.argv[2:]]
from livedex.cli.main import main
main()
"""


@contextmanager
def program(
    installation: KafkaInstallation, folder: Path, *command: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A program with the installation's settings, in a process of its own; killed at the end at
    the latest.
    """
    environment = {
        **os.environ,
        **installation.environment,
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    with (folder / "program.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("topic", [CHUNKED, SYNCED])
async def test_a_kill_between_the_commits_of_database_and_offset_repeats_nothing(
    installation: KafkaInstallation, embedder: EmbeddingServer, tmp_path: Path, topic: str
) -> None:
    async with installation.process(()) as process:
        await process.accept(change("twelve.md", 1, text(*SEEDS)))
    with program(installation, tmp_path, "-c", DYING, topic, *RUN) as dying:
        assert await asyncio.to_thread(dying.wait, 30) == 9, (tmp_path / "program.log").read_text(
            "utf-8"
        )
    paid = Counter(embedder.embedded_documents)
    async with installation.process() as process:
        before = await process.chunk_rows("twelve.md")
        await process.ended()
        assert await process.state("twelve.md") == ("synced", 1)
        after = await process.chunk_rows("twelve.md")
        assert len(after) == len(SEEDS) and await process.s.letters.all() == []
    assert Counter(embedder.embedded_documents) == Counter(text(seed) for seed in SEEDS)
    if topic == SYNCED:
        assert before == after and Counter(embedder.embedded_documents) == paid, (
            "it was there before the second process began"
        )
    assert len(await installation.external_client.records(SYNCED)) == 1


async def test_the_same_record_delivered_to_two_consumers_at_once_is_worked_on_once(
    kafka: str, owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    installation = KafkaInstallation(
        owner_url, kafka, kafka_settings(partitions=3), tmp_path, embedder
    )
    embedder.delay_s = 0.2
    event = change_event(change("twelve.md", 1).data.model_copy(update={"content": None}))
    body = event.encode().replace(
        b'"data":{', b'"data":{"text":"' + text(*SEEDS).replace("\n", "\\n").encode() + b'",'
    )
    async with installation.process() as first, installation.process() as second:
        async with installation.external_client.producer() as producer:
            sending = [
                installation.external_client.put(
                    producer, CHANGED, body, event.key().encode(), partition=n
                )
                for n in range(3)
            ]
            await asyncio.gather(*sending)
        await first.ended()
        await second.ended()
        assert await first.state("twelve.md") == ("synced", 1)
        assert len(await first.chunk_rows("twelve.md")) == len(SEEDS)
        assert await first.s.letters.all() == []
    assert Counter(embedder.embedded_documents) == Counter(text(seed) for seed in SEEDS)


async def test_a_document_whose_worker_was_killed_in_an_embedding_request_completes(
    installation: KafkaInstallation, embedder: EmbeddingServer, tmp_path: Path
) -> None:
    asked, answers = threading.Event(), threading.Event()

    def hang(texts: list[str], _: int) -> Reply | None:
        if any("Marker1 " in given for given in texts) and not answers.is_set():
            asked.set()
            answers.wait(60)
            return CLOSED_CONNECTION
        return None

    embedder.answer = hang
    async with installation.process(()) as process:
        await process.accept(change("a.md", 1, text(1)))
        with program(installation, tmp_path, "-m", "livedex.cli.main", *RUN) as worker:
            await wait_until(asked.is_set)
            worker.kill()
        answers.set()
        assert await process.under_way() == 1
    async with installation.process() as first, installation.process():
        await first.ended()
        assert await first.state("a.md") == ("synced", 1)
        assert await first.under_way() == 0
    assert embedder.embedded_documents == [text(1)]


async def test_a_cancelled_process_leaves_nothing_half_visible(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    embedder.delay_s = 0.05
    async with installation.process() as process:
        await process.accept(change("a.md", 1, text(*SEEDS)))
        await process.ended()
        await process.accept(change("a.md", 2, text(*range(20, 32))))
    async with installation.process() as process:
        assert await process.chunks("a.md") in (
            [text(seed) for seed in SEEDS],
            [text(seed) for seed in range(20, 32)],
        )
        await process.ended()
        assert await process.chunks("a.md") == [text(seed) for seed in range(20, 32)]
    assert len(embedder.embedded_documents) == len(set(embedder.embedded_documents)) == 24
