"""Another embedding model: everything stored is embedded again from its passages, once, and until
then answers say what they lack.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from livedex.app.broker import open_broker
from livedex.app.reports import status_report
from livedex.app.verify.checks import verify_index
from livedex.app.wiring import open_app_context
from livedex.pipeline.model import DocumentId, Reader
from livedex.pipeline.search.engine import SearchResult
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.kafka.installation import STAGES, TENANT, InstallationProcess, change, text
from tests.support.pipelines.stage_runner import kafka_settings

Start = Callable[..., AbstractAsyncContextManager[InstallationProcess]]
NAMES = [f"doc{n}.md" for n in range(8)]
TEXTS = {name: text(n, n + 1) for n, name in enumerate(NAMES)}
PASSAGES = {text(n) for n in range(9)}


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(32) as server:
        yield server


@pytest.fixture(params=["postgres", "kafka"])
def start(
    request: pytest.FixtureRequest, owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> Start:
    """Starts a process of one installation with a model."""
    broker: dict[str, Any] = {}
    if request.param == "kafka":
        broker = {
            "broker_url": f"kafka://{request.getfixturevalue('kafka')}",
            "kafka": kafka_settings(),
        }

    @asynccontextmanager
    async def starting(
        model: str, stages: Sequence[Any] = STAGES
    ) -> AsyncIterator[InstallationProcess]:
        given = {
            "database_url": owner_url,
            "embedder": f"openai:{model}",
            "embedder_url": embedder.url,
            **broker,
        }
        async with open_app_context(Settings(**given), tmp_path, connections=8) as s:
            await s.generations.active()
            async with open_broker(s, stages) as running:
                yield InstallationProcess(s, running)

    return starting


async def search(process: InstallationProcess, n: int, mode: str = "vector") -> SearchResult:
    return await process.s.engine.search(
        Reader(TENANT), SearchRequest(query=f"Marker{n}", mode=mode, limit=50)
    )  # type: ignore[arg-type]


async def embedded(process: InstallationProcess) -> None:
    """Wait until nothing stored lacks a vector."""
    async with asyncio.timeout(60):
        while (await status_report(process.s, process.s.database))["embedding"]["documents"]:
            await asyncio.sleep(0.05)


async def test_what_is_stored_is_embedded_once_by_another_model_and_a_switch_back_embeds_nothing(
    start: Start, embedder: EmbeddingServer, owner: asyncpg.Connection
) -> None:
    async with start("first") as process:
        await process.accept(*(change(name, 1, content) for name, content in TEXTS.items()))
        await process.ended()
        assert (
            len((await search(process, 1)).hits) == 16 and (await search(process, 1)).degraded == []
        )
    assert Counter(embedder.embedded_documents) == dict.fromkeys(PASSAGES, 1)
    async with start("second", ()) as looking:  # nothing runs yet that would embed
        for mode in ("vector", "hybrid"):
            assert (await search(looking, 1, mode)).degraded == ["vector"]
        assert (await search(looking, 1, "keyword")).degraded == []
        assert (await search(looking, 1, "hybrid")).hits
        assert (await status_report(looking.s, looking.s.database))["embedding"] == {
            "model": "openai:second",
            "left": 9,
            "documents": 8,
        }
        assert {d.kind for d in (await verify_index(looking.s)).differences} == {"vector"}
        async with start("second") as one, start("second") as other:
            await one.accept(change("new.md", 1, text(3, 77)))
            await embedded(other)
            await one.ended()
        answer = await search(looking, 1)
        assert answer.degraded == [] and len(answer.hits) == 18
        assert (await verify_index(looking.s)).differences == []
        versions = await owner.fetch("select distinct version from documents")
        assert [row[0] for row in versions] == [1], "nothing is published again"
    assert Counter(embedder.embedded_documents) == {**dict.fromkeys(PASSAGES, 2), text(77): 1}
    async with start("first") as back:
        await embedded(back)
        assert (await search(back, 1)).degraded == []
    assert Counter(embedder.embedded_documents) == {**dict.fromkeys(PASSAGES, 2), text(77): 2}


async def test_a_stored_passage_that_the_new_model_refuses_is_told_and_holds_up_nothing(
    start: Start, embedder: EmbeddingServer
) -> None:
    async with start("first") as process:
        await process.accept(*(change(name, 1, content) for name, content in TEXTS.items()))
        await process.ended()
    embedder.answer = lambda texts, _: (
        Reply(400, {"error": {"message": "no"}})
        if any("Marker0 " in given for given in texts)
        else None
    )
    async with start("second") as process:
        await embedded(process)
        found = await DocumentQueries(process.s.database).get(Reader(TENANT), DocumentId(NAMES[0]))
        assert (
            found is not None
            and found.state == "synced"
            and found.error is not None
            and "passage" in found.error
            and "400" in found.error
        )
        whole = await DocumentQueries(process.s.database).get(Reader(TENANT), DocumentId(NAMES[1]))
        assert whole is not None and whole.error is None
        assert (await search(process, 0, "keyword")).hits, "it is found by its words"
    embedder.answer = lambda texts, _: None
    async with start("first") as process:
        await embedded(process)
        found = await DocumentQueries(process.s.database).get(Reader(TENANT), DocumentId(NAMES[0]))
        assert found is not None and found.error is None


async def test_a_document_that_became_visible_without_vectors_of_the_model_in_use_gets_them(
    start: Start, embedder: EmbeddingServer, owner: asyncpg.Connection
) -> None:
    """The embed stage had another model than the sync stage; or vectors were lost."""
    async with start("second", ("sync",)) as late, start("first", ("chunk", "embed")) as process:
        await process.accept(change("a.md", 1, text(1, 2)))
        await late.ended()
        assert (await search(late, 1)).degraded == ["vector"]
        async with start("second", ("embed",)):
            await embedded(late)
        generation = late.s.generations.generation_id
        await owner.execute(
            f"delete from vectors_{generation} where passage_id = (select min(passage_id) "
            "from passages)"
        )
        async with start("second", ("embed",)):
            async with asyncio.timeout(60):
                while await owner.fetchval(f"select count(*) from vectors_{generation}") < 2:
                    await asyncio.sleep(0.05)
            await embedded(late)
            async with asyncio.timeout(60):  # the document is marked just after its vectors
                while (await search(late, 1)).degraded:
                    await asyncio.sleep(0.05)
    assert Counter(embedder.embedded_documents) == {text(1): 3, text(2): 2} or Counter(
        embedder.embedded_documents
    ) == {
        text(1): 2,
        text(2): 3,
    }
