"""Whoever is shut out by an accepted change is so before the change is processed, however long it
waits behind others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from livedex.pipeline.settings.settings import Settings
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import InProcessInstallation, open_installation

ANN, BOB = "user:ann", "user:bob"
TEXT = f"# Tea\n\nGreen tea wants 80 degrees. {paragraph(1)}"


def event(kind: str, document_id: str, **data: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": document_id + kind,
        "source": "/test",
        "type": f"livedex.document.{kind}",
        "subject": document_id,
        "data": data or None,
    }


async def withdraw(site: InProcessInstallation, how: str, document_id: str) -> None:
    """Shut bob out of a document, or everybody."""
    if how == "put":
        await site.put(document_id, TEXT, acl=[ANN])
    elif how == "put of another text":
        await site.put(document_id, "More than one inline content holds. " * 9000, acl=[ANN])
    elif how == "event":
        answer = await site.http.post(
            "/v1/events", json=[event("changed", document_id, text=TEXT, acl=[ANN])]
        )
        assert answer.status_code == 202, answer.text
    elif how == "delete":
        await site.delete(document_id)
    elif how == "delete event":
        answer = await site.http.post("/v1/events", json=event("deleted", document_id))
        assert answer.status_code == 202, answer.text
    else:
        assert (await site.http.delete(f"/v1/collections/{document_id}")).status_code == 202


async def seen(
    site: InProcessInstallation, document_id: str, principals: list[str] | None
) -> list[bool]:
    """Whether somebody finds a document, and is shown it, its chunks, it in the list."""
    params = {} if principals is None else {"principals": principals}
    body = {"query": "how hot for green tea", "document_ids": [document_id], **params}
    found = [
        bool((await site.http.post("/v1/search", json={**body, "mode": mode})).json().get("hits"))
        for mode in ("hybrid", "vector", "keyword")
    ]
    everything = [
        hit["document_id"]
        for hit in (await site.http.post("/v1/search", json={**body, "document_ids": None}))
        .json()
        .get("hits", [])
    ]
    one, chunks = [
        await site.http.get(f"/v1/documents/{document_id}{end}", params=params)
        for end in ("", "/chunks")
    ]
    listed = (await site.http.get("/v1/documents", params=params)).json()["documents"]
    return [
        *found,
        document_id in everything,
        one.status_code == 200,
        chunks.status_code == 200,
        any(each["document_id"] == document_id for each in listed),
    ]


HOWS = {
    "put": False,
    "put of another text": False,
    "event": False,
    "delete": True,
    "delete event": True,
    "collection": True,
}


async def test_rights_and_deletes_hold_with_the_answer_202(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    names = {how: f"doc{n}" for n, how in enumerate(HOWS)}
    async with open_installation(settings, tmp_path, embedder) as site:
        for name in names.values():
            await site.put(name, TEXT, collection=name)
        await site.ended()
        for name in names.values():
            assert all(await seen(site, name, [BOB])), name
    paid = list(embedder.embedded_documents)
    assert paid
    # as behind a long queue of others
    async with open_installation(settings, tmp_path, embedder, stages=()) as site:
        for how, is_delete in HOWS.items():
            await withdraw(site, how, names[how])
            assert not any(await seen(site, names[how], [BOB])), how
            for reader in ([ANN], None):
                assert any(await seen(site, names[how], reader)) is not is_delete, (how, reader)
        await site.put("doc9", TEXT)
        await site.delete("doc9")
        await site.put(names["delete"], TEXT)
        assert not any(await seen(site, names["delete"], None)), (
            "what was deleted does not come back with what is written next"
        )
    assert embedder.embedded_documents == paid
    async with open_installation(settings, tmp_path, embedder) as site:
        await site.ended()
        for how, is_delete in HOWS.items():
            assert any(await seen(site, names[how], [ANN])) is (not is_delete or how == "delete"), (
                how
            )
            assert any(await seen(site, names[how], [BOB])) is (how == "delete"), how
        assert not any(await seen(site, "doc9", None))


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_a_delete_that_was_accepted_before_what_it_deletes_is_processed_lets_nothing_be_seen(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    async with open_installation(settings, tmp_path, embedder, stages=()) as site:
        await site.put("doc", TEXT)
        await site.delete("doc")
    async with open_installation(settings, tmp_path, embedder) as site:
        while (await site.s.backlog.waiting())["chunk"].waiting + (await site.s.backlog.waiting())[
            "embed"
        ].waiting:
            assert not any(await seen(site, "doc", None))
        await site.ended()
        assert not any(await seen(site, "doc", None))
