"""Processes that meet the same text at the same time: it is paid for once, and nobody waits for
the dead.
"""

from __future__ import annotations

from collections import Counter

from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.kafka.installation import (
    TENANT,
    InstallationProcess,
    KafkaInstallation,
    change,
    text,
)
from tests.support.pipelines.stage_runner import kafka_settings


async def test_two_processes_that_meet_the_same_texts_at_once_pay_for_each_once(
    kafka: str, owner_url: str, tmp_path: object, embedder: EmbeddingServer
) -> None:
    installation = KafkaInstallation(
        owner_url, kafka, kafka_settings(partitions=6), tmp_path, embedder
    )  # type: ignore[arg-type]
    embedder.delay_s = 0.1
    names = [f"copy{n}.md" for n in range(24)]
    async with (
        installation.process(("chunk", "sync")) as front,
        installation.process(("embed",)),
        installation.process(("embed",)),
    ):
        await front.accept(*(change(name, 1, text(1, 2, 3)) for name in names))
        await front.ended()
        assert [await front.state(name) for name in names] == [("synced", 1)] * len(names)
        assert await front.s.letters.all() == []
    assert Counter(embedder.embedded_documents) == Counter([text(1), text(2), text(3)])


async def test_a_text_that_is_refused_holds_up_no_other_process(
    kafka: str, owner_url: str, tmp_path: object, embedder: EmbeddingServer
) -> None:
    installation = KafkaInstallation(
        owner_url, kafka, kafka_settings(partitions=6), tmp_path, embedder
    )  # type: ignore[arg-type]
    embedder.answer = lambda texts, _: (
        Reply(400, {"error": {"message": "no"}})
        if any("Marker1 " in given for given in texts)
        else None
    )
    names = [f"copy{n}.md" for n in range(8)]
    async with (
        installation.process(("chunk", "sync")) as front,
        installation.process(("embed",)),
        installation.process(("embed",)),
    ):
        await front.accept(*(change(name, 1, text(1, 2)) for name in names))
        await front.ended()
        assert {letter.document_id for letter in await front.s.letters.all()} == set(names)
        await front.accept(change("fine.md", 1, text(2, 3)))
        await front.ended()
        assert await front.state("fine.md") == ("synced", 1)
        assert await left(front) == 0
    assert Counter(embedder.embedded_documents) == Counter([text(2), text(3)])


async def left(process: InstallationProcess) -> int:
    """Claims that nobody let go of."""
    async with process.s.database.tenant(TENANT, "look at claims") as connection:
        return int(await connection.fetchval("select count(*) from embedding_claims"))


async def test_over_kafka_every_transaction_waits_for_the_disk(
    installation: KafkaInstallation,
) -> None:
    async with (
        installation.process(()) as process,
        process.s.database.tenant(TENANT, "look", durable=False) as connection,
    ):
        assert await connection.fetchval("show synchronous_commit") == "on"
