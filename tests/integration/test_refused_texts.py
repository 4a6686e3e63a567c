"""A text that something before the provider dislikes, and queries without a vector: what it costs,
and what is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from livedex.app.broker import open_broker
from livedex.app.wiring import open_app_context
from livedex.pipeline.errors import RetryableError
from livedex.pipeline.model import DocumentId, Reader
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.kafka.installation import STAGES, TENANT, InstallationProcess, change, text

WORDS = "Request 0815 was blocked by the firewall"
PAGE = f"<html><head><title>403</title></head><body>{WORDS}</body></html>".encode()


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(32) as server:
        yield server


@pytest.fixture
async def process(
    owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> AsyncIterator[InstallationProcess]:
    given: dict[str, Any] = {
        "database_url": owner_url,
        "embedder": "openai:m",
        "embedder_url": embedder.url,
        "embedder_api_key": "key-4711",
    }
    async with (
        open_app_context(Settings(**given), tmp_path, connections=8) as s,
        open_broker(s, STAGES) as running,
    ):
        yield InstallationProcess(s, running)


async def test_a_firewall_that_dislikes_one_text_costs_one_document_and_nobody_else_anything(
    process: InstallationProcess, embedder: EmbeddingServer
) -> None:
    embedder.answer = lambda texts, _: (
        Reply(403, PAGE, {"content-type": "text/html"})
        if any("/etc/passwd" in t for t in texts)
        else None
    )
    bad = (
        text(50)
        + "\n\nSee /etc/passwd for the rest of this paragraph, which says no more than that."
    )
    await process.accept(
        change("bad.md", 1, bad), *(change(f"good{n}.md", 1, text(n, n + 1)) for n in range(6))
    )
    await process.ended()
    assert [await process.state(f"good{n}.md") for n in range(6)] == [("synced", 1)] * 6
    [letter] = await process.s.letters.all()
    found = await DocumentQueries(process.s.database).get(Reader(TENANT), DocumentId("bad.md"))
    assert found is not None and found.state == "dead" and letter.document_id == "bad.md"
    for told in (letter.detail, found.error or ""):
        assert "passage " in told and "HTTP 403" in told and WORDS in told
        assert "passwd" not in told and "4711" not in told
    assert max(Counter(embedder.embedded_documents).values()) == 1
    assert process.s.embeddings.health.status == "ok"
    for query, degraded in (("Marker1", []), ("what is /etc/passwd", ["vector"]), ("Marker2", [])):
        answer = await process.s.engine.search(Reader(TENANT), SearchRequest(query=query))
        assert answer.degraded == degraded
    assert process.s.embeddings.health.status == "ok"


@pytest.mark.parametrize(
    "value", ["0.0", "-0.0", "1e-12", "NaN", "Infinity", "null", '"0.1"', "1e400"]
)
async def test_a_query_whose_vector_is_none_is_answered_by_words_and_says_so(
    process: InstallationProcess, embedder: EmbeddingServer, value: str
) -> None:
    await process.accept(change("a.md", 1, text(1)))
    await process.ended()
    body = f'{{"data": [{{"index": 0, "embedding": [{", ".join([value] * 32)}]}}]}}'.encode()
    embedder.answer = lambda texts, _: Reply(200, body) if texts == ["Marker1"] else None
    answer = await process.s.engine.search(Reader(TENANT), SearchRequest(query="Marker1"))
    assert answer.degraded == ["vector"] and answer.hits
    with pytest.raises(RetryableError):
        await process.s.engine.search(Reader(TENANT), SearchRequest(query="Marker1", mode="vector"))
    assert (
        await process.s.engine.search(Reader(TENANT), SearchRequest(query="Marker1 again"))
    ).degraded == []
