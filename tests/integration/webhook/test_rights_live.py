"""Rights over HTTP down to what a search finds, on both brokers: a change of rights alone costs
nothing and holds for the next query.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from tests.support.http.scripted_embedder import Reply
from tests.support.pipelines.indexed_folder import page, paragraph
from tests.support.pipelines.installation import TIMEOUT_S, InProcessInstallation

ANN, BOB = "user:ann", "user:bob"
LONG = page(7, sections=3)


async def found(
    site: InProcessInstallation, principals: list[str] | None, after: str | None = None, **more: Any
) -> list[str]:
    """The documents of the hits."""
    body = {"query": "Marker700", "after": after, "wait_s": 30, "principals": principals, **more}
    answer = await site.http.post(
        "/v1/search", json={key: value for key, value in body.items() if value is not None}
    )
    assert answer.status_code == 200, answer.text
    return sorted({hit["document_id"] for hit in answer.json()["hits"]})


async def written(owner: asyncpg.Connection) -> dict[str, set[tuple[str, str]]]:
    """Place and writing transaction of every row that is searched: another one where a row was
    written anew.
    """
    tables = ["passages", "chunks", "vectors_1"]
    return {
        table: {
            tuple(row) for row in await owner.fetch(f"select ctid::text, xmin::text from {table}")
        }
        for table in tables
    }


async def test_a_change_of_rights_alone_writes_nothing_embeds_nothing_and_holds_for_the_next_query(
    site: InProcessInstallation, owner: asyncpg.Connection
) -> None:
    assert await site.state((await site.put("other", LONG))["token"], 30) == "synced"
    token = (await site.put("d", LONG, acl=[ANN]))["token"]
    assert await found(site, [ANN], token) == ["d", "other"]
    assert await found(site, [BOB]) == ["other"]
    before, paid = await written(owner), list(site.embedder.embedded_documents)
    assert all(before.values())
    steps: list[tuple[Any, list[str], list[str], list[str]]] = [
        ([BOB], ["other"], ["d", "other"], ["other"]),
        ([], ["other"], ["other"], ["other"]),
        ([ANN, BOB], ["d", "other"], ["d", "other"], ["other"]),
        (None, ["d", "other"], ["d", "other"], ["d", "other"]),
        ([ANN], ["d", "other"], ["other"], ["other"]),
    ]
    for acl, ann, bob, nobody in steps:
        token = (await site.put("d", LONG, acl=acl))["token"]
        for mode in ("hybrid", "vector", "keyword"):
            assert [
                await found(site, who, token, mode=mode, limit=50) for who in ([ANN], [BOB], [])
            ] == [ann, bob, nobody], (acl, mode)
        assert await site.state(token) == "synced"
        assert await found(site, None) == ["d", "other"]
    assert await written(owner) == before
    assert site.embedder.embedded_documents == paid


async def test_who_is_shut_out_is_so_while_the_new_text_cannot_be_embedded(
    site: InProcessInstallation,
) -> None:
    token = (await site.put("d", LONG))["token"]
    assert await found(site, [BOB], token) == ["d"]
    site.embedder.answer = lambda texts, number: Reply(503)
    token = (await site.put("d", f"{LONG}\n## More\n\n{paragraph(8)}\n", acl=[ANN]))["token"]
    async with asyncio.timeout(TIMEOUT_S):
        while await found(site, [BOB], mode="keyword"):
            await asyncio.sleep(0.05)
    for mode in ("keyword", "hybrid"):
        assert [await found(site, who, mode=mode) for who in ([ANN], [BOB], None)] == [
            ["d"],
            [],
            ["d"],
        ]
    assert await site.state(token) == "pending"
    site.embedder.answer = lambda texts, number: None
    assert await site.state(token, 30) == "synced"
    assert [await found(site, who) for who in ([ANN], [BOB])] == [["d"], []]
