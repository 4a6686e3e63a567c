"""Many documents are cut in another process as one is cut in a thread; a batch that fails is cut
one by one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import psutil
import pytest

from livedex.pipeline.stages.batch_chunker import BatchChunker
from livedex.pipeline.stages.document_chunker import (
    ChunkedDocument,
    ChunkerConfig,
    ThreadChunker,
    chunk_document,
)
from livedex.pipeline.stages.process_pool import ProcessChunker
from livedex.pipeline.store.keyword_analyzer import analyze_text

CUTTING = ChunkerConfig(size=300)
TEXTS = [
    f"# Paper {n}\n\n"
    + "\n\n".join(f"Paragraph {n}.{m} speaks of ERR_{m} and of C++." * 3 for m in range(40))
    for n in range(40)
]


class Alone:
    """Cuts in a thread and notes what."""

    def __init__(self) -> None:
        self._cutter = ThreadChunker(CUTTING)
        self.names: list[str] = []

    async def chunk(self, content: bytes, *, name: str, mime_type: str | None) -> ChunkedDocument:
        self.names.append(name)
        return await self._cutter.chunk(content, name=name, mime_type=mime_type)


class Bench:
    """A cutter under test."""

    def __init__(self, batch_s: float = 30.0) -> None:
        self.alone, self.elsewhere = Alone(), ProcessChunker()
        self.cutter = BatchChunker(CUTTING, self.alone, self.elsewhere, batch_timeout_s=batch_s)

    async def chunk(self, texts: list[str]) -> list[ChunkedDocument]:
        cuts = [
            self.cutter.chunk(text.encode(), name=f"{n}.md", mime_type=None)
            for n, text in enumerate(texts)
        ]
        return await asyncio.gather(*cuts)

    async def until_together(self) -> None:
        """Until many are no longer cut alone: the process is there."""
        async with asyncio.timeout(60):
            while True:
                before = len(self.alone.names)
                await self.chunk(["some words"] * 8)
                if len(self.alone.names) <= before + 3:
                    return
                await asyncio.sleep(0.02)


@contextmanager
def bench(batch_s: float = 30.0) -> Iterator[Bench]:
    made = Bench(batch_s)
    try:
        yield made
    finally:
        made.cutter.close()
        made.elsewhere.close()


@pytest.fixture
async def many() -> AsyncIterator[Bench]:
    with bench() as made:
        await made.until_together()
        yield made


def bare(cut: ChunkedDocument) -> tuple[object, ...]:
    """What both ways of cutting must agree on."""
    found = cut.extracted
    pieces = [(piece.hash, piece.content, piece.gap, piece.heading) for piece in cut.pieces]
    return (
        cut.state,
        cut.error,
        found and (found.title, found.mime_type, found.format, found.metadata),
        pieces,
    )


def workers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process(os.getpid()).children()
        if any("spawn_main" in part for part in child.cmdline())
    ]


async def test_a_few_documents_are_cut_alone_and_no_process_is_started() -> None:
    with bench() as made:
        before = len(workers())
        for text in TEXTS:
            await made.chunk([text])
        await made.chunk(TEXTS[:3])
        assert len(made.alone.names) == len(TEXTS) + 3
        assert len(workers()) == before


async def test_while_the_process_starts_documents_are_cut_alone() -> None:
    with bench() as made:
        assert all(cut.state == "synced" for cut in await made.chunk(TEXTS[:8]))
        assert len(made.alone.names) == 8


async def test_many_are_cut_as_each_would_be_alone_and_have_their_words(many: Bench) -> None:
    alone = len(many.alone.names)
    cuts = await many.chunk([*TEXTS, "", "\x00\x01\x02\x03"])
    assert [bare(cut) for cut in cuts] == [
        bare(chunk_document(text.encode(), f"{n}.md", None, CUTTING))
        for n, text in enumerate([*TEXTS, "", "\x00\x01\x02\x03"])
    ]
    assert len(many.alone.names) == alone
    assert all(piece.words == analyze_text(piece.content) for cut in cuts for piece in cut.pieces)


async def test_a_large_document_is_left_to_the_cutter_for_one(many: Bench) -> None:
    before = len(many.alone.names)
    await many.chunk(["word " * 60_000, *TEXTS])
    assert many.alone.names[before:] == ["0.md"]


async def test_when_the_process_dies_everything_is_cut_all_the_same(many: Bench) -> None:
    running = asyncio.gather(*(many.chunk(TEXTS) for _ in range(3)))
    await asyncio.sleep(0.02)
    for worker in workers():
        worker.kill()
    for cuts in await running:
        assert [bare(cut) for cut in cuts] == [
            bare(chunk_document(text.encode(), f"{n}.md", None, CUTTING))
            for n, text in enumerate(TEXTS)
        ]
    await many.until_together()


async def test_a_batch_that_takes_too_long_is_cut_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with bench(batch_s=0.0) as made:
        await made.until_together()
        cuts = await made.chunk(TEXTS[:6])
        assert [cut.state for cut in cuts] == ["synced"] * 6
        assert "documents failed: each is chunked alone" in caplog.text


async def test_a_document_that_takes_too_long_alone_says_so() -> None:
    elsewhere = ProcessChunker(timeout_s=0.0)
    try:
        cut = await elsewhere(TEXTS[0].encode(), "0.md", None, CUTTING)
        assert (cut.state, cut.pieces) == ("timeout", ())
    finally:
        elsewhere.close()
