"""Dead letters over Kafka: sent through again by the program, byte for byte, and never over
something newer.
"""

from __future__ import annotations

import asyncio
import random
from operator import itemgetter
from pathlib import Path

import orjson
import pytest

from livedex.pipeline.events.event import CHANGED, DEAD, Changed, change_event
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.store.dead_letter_store import DeadLetter
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.kafka.installation import InstallationProcess, KafkaInstallation, change, text
from tests.support.programs.command import livedex

BAD = 9


def refuse(texts: list[str], _: int) -> Reply | None:
    """An embedder that cannot do with one text."""
    return (
        Reply(400, {"error": {"message": "no"}})
        if any(f"Marker{BAD}" in given for given in texts)
        else None
    )


async def replay(installation: KafkaInstallation, folder: Path, *which: str) -> str:
    """What `livedex dead replay` says."""
    done = await asyncio.to_thread(
        livedex, folder, "dead", "replay", *which, **installation.environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def letters(process: InstallationProcess) -> list[DeadLetter]:
    """All of them, in order of their versions."""
    return sorted(await process.s.letters.all(), key=lambda letter: letter.version or 0)


async def test_a_letter_that_something_newer_has_overtaken_changes_nothing(
    installation: KafkaInstallation, embedder: EmbeddingServer, tmp_path: Path
) -> None:
    embedder.answer = refuse
    async with installation.process() as process:
        await process.accept(change("a.md", 1, text(1)))
        await process.ended()
        await process.accept(change("a.md", 2, text(BAD)))
        await process.ended()
        (letter,) = await letters(process)
        assert (letter.document_id, letter.version, letter.stage) == ("a.md", 2, "embed")
        assert await process.state("a.md") == ("dead", 1)
        await process.accept(change("a.md", 3, text(3)))
        await process.ended()
        await process.accept(change("a.md", 4, deleted=True))
        await process.ended()
        embedder.answer = lambda texts, _: None
        assert (
            await replay(installation, tmp_path, letter.letter_id)
            == "replayed 0 letters; 1 letter stale: a newer version is there\n"
        )
        await process.ended()
        assert await process.state("a.md") is None and await letters(process) == []
    assert text(BAD) not in embedder.embedded_documents


@pytest.mark.parametrize("newest_first", [False, True])
async def test_two_letters_of_a_document_end_at_the_newer_one_in_either_order(
    installation: KafkaInstallation, embedder: EmbeddingServer, tmp_path: Path, newest_first: bool
) -> None:
    embedder.answer = refuse
    async with installation.process() as process:
        await process.accept(change("a.md", 2, text(BAD)))
        await process.ended()
        await process.accept(change("a.md", 3, text(BAD, 4)))
        await process.ended()
        found = await letters(process)
        assert [letter.version for letter in found] == [2, 3]
        embedder.answer = lambda texts, _: None
        for letter in reversed(found) if newest_first else found:
            await replay(installation, tmp_path, letter.letter_id)
            await process.ended()
        assert await process.state("a.md") == ("synced", 3)
        assert await process.chunks("a.md") == [text(BAD), text(4)]
        assert await letters(process) == []


NAME = itemgetter(0)
HEADERS = (
    ("trace", b"abc"),
    ("bytes", b"\xff\x00"),
    ("twice", b"1"),
    ("twice", b"2"),
    ("none", None),
    ("empty", b""),
)


async def test_an_unstorable_document_id_and_an_oversized_key_leave_one_dead_letter_each(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    rng = random.Random(5)
    long_name = "".join(chr(rng.randrange(0x4E00, 0x9FA0)) for _ in range(2000))
    body = orjson.loads(
        change_event(Changed(tenant_id="acme", document_id="a.md", version=1)).encode()
    )
    body["data"] |= {"document_id": long_name, "text": text(1)}
    async with installation.process() as process:
        await installation.external_client.send(CHANGED, orjson.dumps(body), b"acme/long")
        await installation.external_client.send(CHANGED, b"{bad", rng.randbytes(900_000))
        await process.accept(change("after.md", 1, text(2)))
        await process.ended()
        found = await letters(process)
        assert [(letter.tenant_id, letter.document_id) for letter in found] == [
            (UNKNOWN_TENANT, None)
        ] * 2
        assert await process.state("after.md") == ("synced", 1)
    told = [
        orjson.loads(record.value)["data"]
        for record in await installation.external_client.records(DEAD)
    ]
    assert sorted(data["letter_id"] for data in told) == sorted(
        letter.letter_id for letter in found
    )
    assert sorted("key" in data["place"] for data in told) == [False, True], (
        "what does not fit is left out"
    )


async def test_a_letter_too_large_for_its_topic_is_kept_and_holds_up_nobody(
    installation: KafkaInstallation,
) -> None:
    async with installation.process() as process:
        await installation.external_client.configure(DEAD, {"max.message.bytes": "300"})
        await installation.external_client.send(
            CHANGED, random.Random(5).randbytes(3000), b"acme/a.md"
        )
        await process.ended()
        assert len(await letters(process)) == 1
    assert await installation.external_client.records(DEAD) == []


async def test_letters_are_told_again_once_one_was_too_large_for_its_topic(
    installation: KafkaInstallation,
) -> None:
    async with installation.process() as process:
        for limit, size in (("1000000", 10), ("300", 3000), ("1000000", 10)):
            await installation.external_client.configure(DEAD, {"max.message.bytes": limit})
            await installation.external_client.send(
                CHANGED, random.Random(5).randbytes(size), b"acme/a.md"
            )
            await process.ended()
        found = await letters(process)
    told = [
        orjson.loads(record.value)["data"]["letter_id"]
        for record in await installation.external_client.records(DEAD)
    ]
    assert len(found) == 3
    assert len(set(told) & {letter.letter_id for letter in found}) == len(told) == 2


async def test_a_tombstone_that_is_sent_through_again_has_no_value_still(
    installation: KafkaInstallation, tmp_path: Path
) -> None:
    async with installation.process() as process:
        await installation.external_client.send(CHANGED, None, b"no document")
        await process.ended()
        assert await replay(installation, tmp_path, "--all") == "replayed 1 letter\n"
        await process.ended()
    assert [record.value for record in await installation.external_client.records(CHANGED)] == [
        None,
        None,
    ]


async def test_bytes_that_are_sent_through_again_are_those_that_stood_there(
    installation: KafkaInstallation, tmp_path: Path
) -> None:
    async with installation.process() as process:
        await installation.external_client.send(CHANGED, b"\xff\x00{", b"acme/\xfe", HEADERS)
        await process.ended()
        (letter,) = await letters(process)
        assert await replay(installation, tmp_path, "--all") == "replayed 1 letter\n"
        await process.ended()
        (again,) = await letters(process)
        assert (again.letter_id, again.place, again.headers) == (
            letter.letter_id,
            letter.place,
            letter.headers,
        )
        assert (letter.attempts, again.attempts) == (1, 2)
    first, second = await installation.external_client.records(CHANGED)
    assert (second.key, second.value) == (first.key, first.value)
    assert sorted(first.headers, key=NAME) == sorted(HEADERS, key=NAME)
    assert sorted(second.headers, key=NAME) == sorted(
        [*HEADERS, ("livedex-letter", letter.letter_id.encode())], key=NAME
    )
    assert len(await installation.external_client.records(DEAD)) == 2


async def test_a_letter_of_nine_hundred_kilobytes_is_told_by_its_hash_and_kept_whole(
    installation: KafkaInstallation, embedder: EmbeddingServer, tmp_path: Path
) -> None:
    payload = b"{" + b"x" * 900_000
    headers = [("trace", b"\xff" * 60_000), ("more", b"y" * 60_000)]
    async with installation.process() as process:
        await installation.external_client.send(CHANGED, payload, b"acme/large.md", headers)
        await process.accept(change("after.md", 1, text(1)))
        await process.ended()
        (listed,) = await letters(process)
        letter = await process.s.letters.find(listed.letter_id)
        assert letter.payload == payload and letter.headers["more"] == "y" * 60_000
        assert await process.state("after.md") == ("synced", 1)
        assert await replay(installation, tmp_path, "--all") == "replayed 1 letter\n"
        await process.ended()
    told = [
        orjson.loads(record.value) for record in await installation.external_client.records(DEAD)
    ]
    assert [body["data"]["size_bytes"] for body in told] == [900_001, 900_001]
    assert all(
        "payload" not in body["data"] and len(body["data"]["payload_sha256"]) == 64 for body in told
    )
    assert (
        max(len(record.value) for record in await installation.external_client.records(DEAD))
        < 1_000_000
    )
    sent = [
        record.value
        for record in await installation.external_client.records(CHANGED)
        if record.key == b"acme/large.md"
    ]
    assert sent == [payload, payload]


async def test_content_of_more_than_a_message_travels_by_reference(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    seeds = range(100, 2900)
    content = text(*seeds)
    assert len(content) > 1_100_000
    async with installation.process() as process:
        await process.accept(change("large.md", 1, content), change("small.md", 1, text(1)))
        await process.ended()
        assert await process.state("large.md") == await process.state("small.md") == ("synced", 1)
        assert len(await process.chunks("large.md")) == len(seeds)
    assert (
        max(len(record.value) for record in await installation.external_client.records(CHANGED))
        < 300_000
    )
    assert len(embedder.embedded_documents) == len(seeds) + 1
