"""Records that are no event, between good ones: one dead letter each with everything that stood in
Kafka, and the good ones go on.
"""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import orjson
import pytest

from livedex.consumers.kafka.records import (
    decode_text_as_bytes,
    encode_bytes_as_text,
    headers_to_kafka,
)
from livedex.pipeline.events.event import CHANGED, DEAD, Changed, change_event
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.store.dead_letter_store import DeadLetter
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.external_client import Headers
from tests.support.kafka.installation import TENANT, InstallationProcess, KafkaInstallation, text

NAME = itemgetter(0)  # of a header; the order of different names is not kept
LARGE = random.Random(7).randbytes(2 * 1024 * 1024)


@dataclass(frozen=True)
class Poison:
    """A record that is no event."""

    name: str
    value: bytes | None
    key: bytes | None = b"acme/bad.md"
    headers: Headers = ()


def event(document_id: str, *seeds: int, version: int = 1, **instead: Any) -> bytes:
    """A whole event as another system may write it; `instead` replaces parts of the envelope."""
    data = Changed(tenant_id=TENANT, document_id=document_id, version=version, name="a.md")
    body = orjson.loads(change_event(data).encode())
    body["data"]["text"] = text(*seeds)
    return orjson.dumps(body | instead)


POISONS = [
    Poison("no JSON", b"{not json"),
    Poison("no UTF-8", b"\xff\xfe{}"),
    Poison("empty", b""),
    Poison("null", b"null"),
    Poison("a list", b"[1,2]"),
    Poison("a number", b"0"),
    Poison("nested deeply", b"[" * 100_000),
    Poison("a field is missing", event("bad.md", data={"tenant_id": TENANT})),
    Poison(
        "a field of another type",
        event("bad.md", data={"tenant_id": TENANT, "document_id": 7, "version": "one"}),
    ),
    Poison("an unknown version of the schema", event("bad.md", schemaversion=99)),
    Poison("an unknown type", event("bad.md", type="livedex.document.exploded")),
    Poison(
        "content that is no base64",
        event(
            "bad.md",
            data={"tenant_id": TENANT, "document_id": "bad.md", "version": 1, "content": "?"},
        ),
    ),
    *(
        Poison(
            f"a NUL in {name}",
            event(
                "bad.md",
                data={"tenant_id": TENANT, "document_id": "bad.md", "version": 1, name: "a\x00b"},
            ),
        )
        for name in ("tenant_id", "document_id", "collection", "source", "mime_type")
    ),
    Poison("no key", b"{", key=None),
    Poison("an empty key", b"{", key=b""),
    Poison("a key with NUL", b"{", key=b"acme/\x00"),
    Poison("a key that is no UTF-8", b"{", key=b"\xff\xfe"),
    Poison("a key that looks like ours in base64", b"{", key=b"base64:YWI="),
    Poison("neither key nor value", None, key=None),
    Poison("no value, and a key that names no document", None, key=b"acme"),
    Poison("no value, and a key without a tenant", None, key=b"/bad.md"),
    Poison("no value, and a key that is no UTF-8", None, key=b"\xff/bad.md"),
    Poison("no value, and a key with NUL", None, key=b"acme/a\x00b"),
    Poison("no value, and a key that is too long", None, key=b"acme/" + b"x" * 3000),
    Poison(
        "headers that are no UTF-8",
        b"{",
        headers=[
            ("a", b"\xff\xfe"),
            ("b", b"nul\x00"),
            ("empty", b""),
            ("none", None),
            ("text", "é".encode()),
        ],
    ),
    Poison(
        "headers of one name",
        b"{",
        headers=[("trace", b"1"), ("trace", b"2"), ("trace", None), ("span", b"3")],
    ),
    Poison("two megabytes", LARGE),
]


async def send_between_good_ones(
    installation: KafkaInstallation, poisons: Sequence[Poison]
) -> list[tuple[int, int]]:
    """Poisons, each between two good records; where each stands."""
    outside, places = installation.external_client, []
    async with outside.producer() as producer:
        for number, poison in enumerate(poisons):
            await outside.put(
                producer,
                CHANGED,
                event(f"good{number}.md", number),
                f"{TENANT}/good{number}.md".encode(),
            )
            places.append(
                await outside.put(producer, CHANGED, poison.value, poison.key, poison.headers)
            )
        await outside.put(producer, CHANGED, event("last.md", len(poisons)), b"acme/last.md")
    return places


async def letters_by_offset(process: InstallationProcess) -> dict[int, DeadLetter]:
    """Every letter with its payload."""
    letters = [
        await process.s.letters.find(listed.letter_id) for listed in await process.s.letters.all()
    ]
    found = {letter.place["offset"]: letter for letter in letters}
    assert len(found) == len(letters), "a record left two letters"
    return found


async def test_each_poison_is_one_letter_with_all_that_stood_there_and_its_neighbours_are_synced(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    async with installation.process() as process:
        places = await send_between_good_ones(installation, POISONS)
        await process.ended()
        found = await letters_by_offset(process)
        states = [await process.state(f"good{n}.md") for n in range(len(POISONS))] + [
            await process.state("last.md")
        ]
    assert states == [("synced", 1)] * (len(POISONS) + 1)
    assert sorted(found) == [offset for _, offset in places]
    for (partition, offset), poison in zip(places, POISONS, strict=True):
        letter = found[offset]
        assert letter.payload == (poison.value or b""), poison.name
        key = None if poison.key is None else encode_bytes_as_text(poison.key)
        told = {"partition": partition, "offset": offset, "key": key} | (
            {"value": None} if poison.value is None else {}
        )
        assert letter.place == told, poison.name
        assert sorted(headers_to_kafka(letter.headers), key=NAME) == sorted(
            poison.headers, key=NAME
        ), poison.name
        assert key is None or decode_text_as_bytes(key) == poison.key, poison.name
        known = poison.name.startswith("content that")
        assert (letter.topic, letter.stage, letter.reason) == (CHANGED, "chunk", "invalid_event"), (
            poison.name
        )
        assert letter.tenant_id == (TENANT if known else UNKNOWN_TENANT) and letter.detail, (
            poison.name
        )
    assert (
        len(embedder.embedded_documents)
        == len(set(embedder.embedded_documents))
        == len(POISONS) + 1
    )
    await check_what_is_told(installation, found)


async def check_what_is_told(
    installation: KafkaInstallation, letters: dict[int, DeadLetter]
) -> None:
    """Each letter is told once on `livedex.dead`, with its bytes where they fit."""
    told = [
        orjson.loads(record.value) for record in await installation.external_client.records(DEAD)
    ]
    assert sorted(body["id"] for body in told) == sorted(
        letter.letter_id for letter in letters.values()
    )
    for body in told:
        letter = letters[body["data"]["place"]["offset"]]
        data = body["data"]
        assert data["payload_sha256"] == hashlib.sha256(letter.payload).hexdigest()
        assert (data["size_bytes"], data["reason"], data["headers"]) == (
            len(letter.payload),
            letter.reason,
            letter.headers,
        )
        assert data.get("payload") == (
            None if len(letter.payload) > 1024 * 1024 else base64.b64encode(letter.payload).decode()
        )


async def test_a_poison_that_is_delivered_again_leaves_no_second_letter(
    installation: KafkaInstallation,
) -> None:
    async with installation.process() as process:
        await send_between_good_ones(installation, POISONS[:1])
        await process.ended()
        before = await letters_by_offset(process)
    await installation.external_client.reset_offsets(CHANGED, "chunk")
    async with installation.process() as process:
        await process.ended()
        assert await letters_by_offset(process) == before
        assert [letter.attempts for letter in before.values()] == [1]


async def test_a_good_event_is_handled_whatever_its_key_and_headers_are(
    installation: KafkaInstallation, embedder: EmbeddingServer
) -> None:
    keys: list[bytes | None] = [None, b"", b"\xff", b"nul\x00", b"other/elsewhere.md"]
    async with installation.process() as process:
        for number, key in enumerate(keys):
            await installation.external_client.send(
                CHANGED, event(f"d{number}.md", number), key, [("trace", b"\xff\x00")]
            )
        await process.ended()
        assert [await process.state(f"d{n}.md") for n in range(len(keys))] == [("synced", 1)] * len(
            keys
        )
        assert await process.s.letters.all() == []
    assert len(embedder.embedded_documents) == len(keys)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_records_of_producers_that_compress_are_read(
    installation: KafkaInstallation, codec: str
) -> None:
    async with installation.process() as process:
        async with installation.external_client.producer(compression_type=codec) as producer:
            await producer.send_and_wait(
                installation.kafka.prefix + CHANGED, event("d.md", 1, 2, 3), key=b"acme/d.md"
            )
        await process.ended()
        assert await process.state("d.md") == ("synced", 1)
