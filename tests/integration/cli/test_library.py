"""The library: what an ingest embeds and reports, and how it ends when versions overtake each
other or the embedder fails.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from livedex import Livedex
from livedex.app.library import IngestResult
from livedex.pipeline.errors import OutageError, RejectedError
from livedex.pipeline.model import DocumentId, Reader, TenantId
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.kafka.installation import text
from tests.support.pipelines.installation import settings_for

ACME = TenantId("acme")


@pytest.fixture
async def livedex(
    owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> AsyncIterator[Livedex]:
    async with Livedex.open(settings_for(owner_url, None, embedder), tmp_path) as opened:
        yield opened


async def put(livedex: Livedex, content: str, version: int, name: str = "a.md") -> IngestResult:
    return await livedex.ingest(name, content, tenant_id=ACME, version=version)


async def seen(livedex: Livedex, name: str = "a.md") -> tuple[int | None, list[str]]:
    """The visible version of a document, and its chunks."""
    found = await DocumentQueries(livedex.surroundings.database).chunks(
        Reader(ACME), DocumentId(name)
    )
    return (
        (None, []) if found is None else (found.version, [chunk.content for chunk in found.chunks])
    )


async def test_an_edit_embeds_what_differs_and_says_what_it_did(
    livedex: Livedex, embedder: EmbeddingServer
) -> None:
    assert await put(livedex, text(1, 2, 3), 1) == IngestResult(chunks=3, embedded=3)
    assert await put(livedex, text(1, 4, 3), 2) == IngestResult(
        chunks=3, embedded=1, reused=2, deleted=1
    )
    assert await put(livedex, text(3, 1, 4), 1, "copy.md") == IngestResult(chunks=3, reused=3)
    assert await put(livedex, text(4), 3) == IngestResult(chunks=1, reused=1, deleted=2)
    assert sorted(embedder.embedded_documents) == sorted(text(n) for n in (1, 2, 3, 4))
    assert await seen(livedex) == (3, [text(4)])
    assert await seen(livedex, "copy.md") == (1, [text(3), text(1), text(4)])


async def test_an_older_version_and_the_same_again_do_nothing(
    livedex: Livedex, embedder: EmbeddingServer
) -> None:
    await put(livedex, text(1), 5)
    assert await put(livedex, text(2), 4) == IngestResult(superseded=True)
    assert await put(livedex, text(1), 5) == IngestResult(superseded=True)
    assert embedder.embedded_documents == [text(1)]
    assert await livedex.delete("a.md", tenant_id=ACME)
    assert await put(livedex, text(2), 6) == IngestResult(superseded=True), (
        "a delete is of now, and later than version 6"
    )
    assert await seen(livedex) == (None, [])


async def test_versions_at_the_same_time_end_as_the_newest_and_each_text_is_embedded_once(
    livedex: Livedex, embedder: EmbeddingServer
) -> None:
    await asyncio.gather(*(put(livedex, text(1, version), version) for version in range(2, 12)))
    assert await seen(livedex) == (11, [text(1), text(11)])
    assert len(embedder.embedded_documents) == len(set(embedder.embedded_documents))


async def test_after_an_outage_of_the_embedder_the_same_version_is_finished(
    livedex: Livedex, embedder: EmbeddingServer
) -> None:
    await put(livedex, text(1, 2), 1)
    embedder.answer = lambda texts, number: Reply(401, {"error": {"message": "no"}})
    with pytest.raises(OutageError):
        await put(livedex, text(1, 3), 2)
    assert await seen(livedex) == (1, [text(1), text(2)])
    embedder.answer = lambda texts, number: None
    while True:
        try:
            done = await put(livedex, text(1, 3), 2)
            break
        except OutageError:
            await asyncio.sleep(0.05)  # until a probe finds out that it is over
    assert done == IngestResult(chunks=2, embedded=1, reused=2, deleted=1)
    assert await seen(livedex) == (2, [text(1), text(3)])
    assert sorted(embedder.embedded_documents) == sorted(text(n) for n in (1, 2, 3))


async def test_metadata_and_titles_of_any_values_are_stored_as_json_holds_them(
    livedex: Livedex, embedder: EmbeddingServer
) -> None:
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    metadata: dict[Any, Any] = {
        "\ud800": "torn \udfff",
        "nul\x00": "\x00",
        7: 2**70,
        "day": datetime.date(2024, 2, 29),
        "nan": float("nan"),
        "raw": object,
        "set": {2, 1},
    }
    for version, given in ((1, metadata), (2, ring)):
        done = await livedex.ingest(
            "a.md",
            text(1),
            tenant_id=ACME,
            version=version,
            metadata=given,
            title="half \ud83d",
            uri="x:\ud83d\ude00\x00",
        )
        assert not done.superseded
        hit = (await livedex.search("section", tenant_id=ACME)).hits[0]
        assert (hit["title"], hit["uri"], hit["version"]) == (
            "half \ufffd",
            "x:\U0001f600",
            version,
        )
        if version == 1:
            assert hit["metadata"] == {
                "\ufffd": "torn \ufffd",
                "nul": "",
                "7": str(2**70),
                "day": "2024-02-29",
                "nan": None,
                "raw": str(object),
                "set": [1, 2],
            }
    assert embedder.embedded_documents == [text(1)]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("document_id", ""),
        ("document_id", "a\x00"),
        ("document_id", "\ud800"),
        ("document_id", "x" * 3000),
        ("version", -1),
        ("version", 2**63),
        ("tenant_id", "x" * 300),
        ("collection", "\x00"),
        ("acl", "everybody"),
        ("acl", [" a"]),
    ],
    ids=lambda v: ascii(v)[:20],
)
async def test_an_argument_without_sense_is_refused_by_its_name(
    livedex: Livedex, embedder: EmbeddingServer, argument: str, value: Any
) -> None:
    arguments: dict[str, Any] = {
        "document_id": "a.md",
        "text": text(1),
        "tenant_id": ACME,
        argument: value,
    }
    with pytest.raises(RejectedError, match=argument):
        await livedex.ingest(**arguments)
    if argument in ("document_id", "tenant_id"):
        with pytest.raises(RejectedError, match=argument):
            await livedex.delete(arguments["document_id"], tenant_id=arguments["tenant_id"])
    assert (
        embedder.embedded_documents == [] and (await livedex.search("x", tenant_id=ACME)).hits == []
    )


async def test_one_text_is_no_list_of_principals(livedex: Livedex) -> None:
    with pytest.raises(RejectedError, match="principals"):
        await livedex.search("x", tenant_id=ACME, principals="staff")
