"""The library with a model in its own process: its vectors get into the store with the version
they are of.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from livedex import Livedex
from livedex.app.library import IngestResult
from livedex.pipeline.embedding.embedder import Vectors
from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.errors import OutageError, RejectedError
from livedex.pipeline.model import DEFAULT_TENANT, DocumentId, Reader
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.kafka.installation import text


class AtHand(FakeEmbedder):
    """Counts in this process."""

    in_process = True
    last: ClassVar[AtHand]

    def __init__(self) -> None:
        super().__init__()
        AtHand.last = self


@pytest.fixture
async def livedex(owner_url: str, tmp_path: Path) -> AsyncIterator[Livedex]:
    settings = Settings(database_url=owner_url, embedder=f"{__name__}:AtHand", tenant_scoped=False)
    async with Livedex.open(settings, tmp_path) as opened:
        yield opened


def poison(word: str, error: type[RejectedError | OutageError], *said: str) -> Any:
    """A script that refuses every request with a word in it."""

    async def answer(texts: Sequence[str], request: int) -> Vectors | None:
        if any(word in text for text in texts):
            raise error(*said)
        return None

    return answer


async def seen(livedex: Livedex, name: str = "a.md") -> tuple[int | None, list[str]]:
    """The visible version of a document, and its chunks."""
    found = await DocumentQueries(livedex.surroundings.database).chunks(
        Reader(DEFAULT_TENANT), DocumentId(name)
    )
    return (
        (None, []) if found is None else (found.version, [chunk.content for chunk in found.chunks])
    )


async def nearest(livedex: Livedex, query: str) -> str:
    """The content that is nearest to a query by its vector."""
    answer = await livedex.search(query, mode="vector", limit=1)
    return str(answer.hits[0]["content"])


async def test_an_edit_embeds_what_differs_and_is_found_by_its_vectors(livedex: Livedex) -> None:
    assert await livedex.ingest("a.md", text(1, 2, 3), version=1) == IngestResult(
        chunks=3, embedded=3
    )
    assert await livedex.ingest("a.md", text(1, 4, 3), version=2) == IngestResult(
        chunks=3, embedded=1, reused=2, deleted=1
    )
    assert await livedex.ingest("copy.md", text(3, 1, 4), version=1) == IngestResult(
        chunks=3, reused=3
    )
    assert await livedex.ingest("a.md", text(5), version=1) == IngestResult(superseded=True)
    assert sorted(AtHand.last.texts) == sorted(text(n) for n in (1, 2, 3, 4))
    assert await nearest(livedex, text(4)) == text(4)
    assert await seen(livedex) == (2, [text(1), text(4), text(3)])


async def test_what_comes_at_the_same_time_with_the_same_texts_ends_with_all_of_its_vectors(
    livedex: Livedex,
) -> None:
    await asyncio.gather(
        *(livedex.ingest(f"{n}.md", text(1, 2, 3 + n), version=1) for n in range(8))
    )
    for n in range(8):
        assert await seen(livedex, f"{n}.md") == (1, [text(1), text(2), text(3 + n)])
        assert await nearest(livedex, text(3 + n)) == text(3 + n)
    assert await nearest(livedex, text(2)) == text(2)
    assert set(AtHand.last.texts) == {text(n) for n in range(1, 11)}


@pytest.mark.parametrize("error", [RejectedError, OutageError])
async def test_after_a_refusal_or_a_failure_the_version_before_stays_and_the_next_one_is_embedded(
    livedex: Livedex, error: type[RejectedError | OutageError]
) -> None:
    await livedex.ingest("a.md", text(1, 2), version=1)
    away = error is OutageError  # for everybody, a probe included
    AtHand.last.script = poison(
        "" if away else text(3), error, *(("embedder",) if away else ()), "no"
    )
    with pytest.raises(error):
        await livedex.ingest("a.md", text(1, 3), version=2)
    assert await seen(livedex) == (1, [text(1), text(2)])
    AtHand.last.script = poison("nothing at all", RejectedError, "no")
    while True:
        try:
            done = await livedex.ingest("a.md", text(1, 3), version=3)
            break
        except OutageError:
            await asyncio.sleep(0.05)  # until a probe finds out that it is over
    assert done == IngestResult(chunks=2, embedded=1, reused=2, deleted=1)
    assert await nearest(livedex, text(3)) == text(3)
    assert sorted(AtHand.last.texts) == sorted(text(n) for n in (1, 2, 3))
