"""Rights through the library, which reads everything unless it says for whom it reads."""

from __future__ import annotations

from pathlib import Path

from livedex import Livedex
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.pipelines.installation import settings_for


async def test_the_library_reads_everything_or_what_somebody_may_read(
    owner_url: str, tmp_path: Path
) -> None:
    with EmbeddingServer() as embedder:
        settings = settings_for(owner_url, None, embedder)
        async with Livedex.open(settings, tmp_path) as livedex:
            await livedex.ingest("all", "saffron for everybody", tenant_id="acme")
            await livedex.ingest("ann", "saffron for everybody", tenant_id="acme", acl=["user:ann"])
            for principals, right in (
                (None, ["all", "ann"]),
                ([], ["all"]),
                (["user:ann"], ["all", "ann"]),
                (["user:bob"], ["all"]),
            ):
                answer = await livedex.search("saffron", tenant_id="acme", principals=principals)
                assert sorted(hit["document_id"] for hit in answer.hits) == right, principals
            done = await livedex.ingest(
                "ann", "saffron for everybody", tenant_id="acme", acl=["user:bob"]
            )
            assert (done.embedded, done.reused, done.deleted) == (0, 1, 0)
            answer = await livedex.search("saffron", tenant_id="acme", principals=["user:ann"])
            assert [hit["document_id"] for hit in answer.hits] == ["all"]
