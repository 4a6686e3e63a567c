"""Dimensions that do not fit: the stage stops and says so, no document dies, and it goes on by
itself once it is mended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from livedex.app.broker import open_broker
from livedex.app.wiring import open_app_context
from livedex.cli.up import check_embedder
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.documents import active_generation as generation
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.kafka.installation import STAGES, InstallationProcess, change, text


@asynccontextmanager
async def started(
    owner_url: str, folder: Path, server: EmbeddingServer, **more: Any
) -> AsyncIterator[InstallationProcess]:
    given = {"database_url": owner_url, "embedder": "openai:m", "embedder_url": server.url, **more}
    async with (
        open_app_context(Settings(**given), folder, connections=8) as s,
        open_broker(s, STAGES) as running,
    ):
        yield InstallationProcess(s, running)


@pytest.mark.parametrize(
    ("has", "more", "says"),
    [
        (
            4096,
            {},
            "openai:m has 4096 dimensions, pgvector indexes at most 4000: choose another "
            "LIVEDEX_EMBEDDER",
        ),
        (
            4096,
            {"dimensions": 1024},
            "vectors of length 4096 where 1024 is expected; see LIVEDEX_DIMENSIONS",
        ),
        (
            64,
            {"dimensions": 32},
            "vectors of length 64 where 32 is expected; see LIVEDEX_DIMENSIONS",
        ),
        (
            64,
            {"dimensions": 32, "embedder": "openai:text-embedding-3-small"},
            "vectors of length 64 where 32 is expected",
        ),
    ],
)
async def test_a_model_that_does_not_fit_stops_the_stage_and_says_so_and_no_document_dies(
    owner_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has: int,
    more: dict[str, Any],
    says: str,
) -> None:
    monkeypatch.setattr(generation, "_RETRY_AFTER_S", 0.2)
    with EmbeddingServer(has) as embedder:
        # away at the start, so that it is learnt late
        embedder.answer = lambda texts, number: Reply(503)
        async with started(owner_url, tmp_path, embedder, **more) as process:
            await check_embedder(process.s)
            embedder.answer = lambda texts, number: None
            await process.accept(*(change(f"{n}.md", 1, text(n)) for n in range(4)))

            async def told() -> str:
                return (await process.health("embedder") or ("", ""))[1] or ""

            async with asyncio.timeout(30):
                while says not in await told():
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1)
            assert await process.s.letters.all() == []
            assert await process.under_way() == 4
            assert embedder.embedded_documents == [], "nothing but probes"
        with EmbeddingServer(32) as right:
            async with started(owner_url, tmp_path, right) as process:
                await process.ended()
                assert [await process.state(f"{n}.md") for n in range(4)] == [("synced", 1)] * 4


@pytest.mark.parametrize("dimensions", [1, 2000, 2001, 4000])
async def test_vectors_of_every_length_that_can_be_indexed_are_stored(
    owner_url: str, tmp_path: Path, dimensions: int
) -> None:
    with EmbeddingServer(dimensions) as embedder:
        async with started(owner_url, tmp_path, embedder) as process:
            await process.accept(change("a.md", 1, text(1)))
            await process.ended()
            assert await process.state("a.md") == ("synced", 1)
