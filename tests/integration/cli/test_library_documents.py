"""Documents through the library: read, listed, patched, waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from livedex import Livedex
from livedex.pipeline.errors import NotFoundError, RejectedError, TenantRequiredError
from livedex.pipeline.ingest.sync_token import make_sync_token
from livedex.pipeline.model import DocumentId, TenantId
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.installation import text
from tests.support.pipelines.installation import settings_for

ACME = TenantId("acme")


@pytest.fixture
async def livedex(
    owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> AsyncIterator[Livedex]:
    async with Livedex.open(settings_for(owner_url, None, embedder), tmp_path) as opened:
        yield opened


async def test_documents_are_read_as_over_http(livedex: Livedex) -> None:
    for name in ("a", "b", "c"):
        await livedex.ingest(
            name,
            text(1),
            tenant_id=ACME,
            title=name,
            version=1,
            acl=["user:ann"] if name == "c" else None,
        )
    found, chunks = (
        await livedex.get("a", tenant_id=ACME),
        await livedex.chunks("a", tenant_id=ACME),
    )
    assert found is not None and (found.title, found.state, found.version) == ("a", "synced", 1)
    assert chunks is not None and [chunk.content for chunk in chunks.chunks] == [text(1)]
    first = await livedex.list(tenant_id=ACME, limit=2)
    rest = await livedex.list(tenant_id=ACME, limit=2, cursor=first.next_cursor)
    assert [document.document_id for page in (first, rest) for document in page.documents] == [
        "a",
        "b",
        "c",
    ] and rest.next_cursor is None
    assert await livedex.get("c", tenant_id=ACME, principals=["user:bob"]) is None
    assert len((await livedex.list(tenant_id=ACME, principals=[])).documents) == 2
    assert await livedex.get("a", tenant_id="other") is None
    assert (
        await livedex.wait(make_sync_token(ACME, DocumentId("a"), 1), tenant_id=ACME, timeout_s=0)
        == "synced"
    )
    with pytest.raises(NotFoundError):
        await livedex.wait("nonsense", tenant_id=ACME)
    for call in (
        livedex.get("a"),
        livedex.list(),
        livedex.chunks("a"),
        livedex.wait("x"),
        livedex.patch("a", {"title": "x"}),
    ):
        with pytest.raises(TenantRequiredError):
            await call


async def test_a_patch_changes_what_it_names_and_embeds_nothing(
    livedex: Livedex, embedder: EmbeddingServer
) -> None:
    await livedex.ingest("a", text(1, 2), tenant_id=ACME, title="Old", metadata={"k": 1, "n": 2})
    paid = list(embedder.embedded_documents)
    done = await livedex.patch(
        "a", {"title": "New", "metadata": {"n": None}, "acl": ["user:ann"]}, tenant_id=ACME
    )
    found = await livedex.get("a", tenant_id=ACME)
    assert (done.embedded, done.deleted, done.superseded) == (
        0,
        0,
        False,
    ) and embedder.embedded_documents == paid
    assert found is not None and (found.title, found.metadata, found.acl, found.chunk_count) == (
        "New",
        {"k": 1},
        ["user:ann"],
        done.chunks,
    )
    await livedex.ingest("a", text(3), tenant_id=ACME, title="Newest")
    found = await livedex.get("a", tenant_id=ACME)
    assert found is not None and (found.title, found.acl) == ("Newest", None)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"text": "a"},
        {"title": 1},
        {"acl": "user:ann"},
        {"metadata": []},
        {"collection": ""},
        {"version": 1},
    ],
    ids=str,
)
async def test_a_patch_without_sense_is_refused(livedex: Livedex, changes: dict[str, Any]) -> None:
    await livedex.ingest("a", text(1), tenant_id=ACME)
    with pytest.raises(RejectedError):
        await livedex.patch("a", changes, tenant_id=ACME)
    with pytest.raises(NotFoundError):
        await livedex.patch("never", {"title": "x"}, tenant_id=ACME)
