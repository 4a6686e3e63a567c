"""PATCH: what a document carries changes, its content does not, nothing is embedded, and the order
with writes is that of their versions.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from livedex.pipeline.events.merge_patch import merge_patch
from livedex.pipeline.settings.settings import Settings
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import (
    InProcessInstallation,
    gather_list,
    open_installation,
)

TEXT, OTHER, THIRD = paragraph(1), paragraph(2), paragraph(3)


async def patch(site: InProcessInstallation, document_id: str, **body: Any) -> dict[str, Any]:
    answer = await site.http.patch(f"/v1/documents/{document_id}", json=body)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def read(site: InProcessInstallation, document_id: str) -> dict[str, Any]:
    answer = await site.http.get(f"/v1/documents/{document_id}")
    return dict(answer.json()) if answer.status_code == 200 else {}


# Source: RFC 7396, appendix A.
@pytest.mark.parametrize(
    ("target", "change", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_metadata_are_merged_as_the_standard_says(target: Any, change: Any, result: Any) -> None:
    assert merge_patch(target, change) == result


async def test_what_is_named_changes_and_the_rest_stays_and_nothing_is_embedded(
    site: InProcessInstallation,
) -> None:
    await site.put(
        "d",
        TEXT,
        title="Old",
        uri="https://a/",
        metadata={"kind": "note", "deep": {"a": 1, "b": 2}},
        collection="c",
    )
    await site.ended()
    paid, before = list(site.embedder.embedded_documents), await read(site, "d")
    done = await patch(
        site,
        "d",
        title="New",
        metadata={"deep": {"b": None, "c": 3}, "more": [1]},
        acl=["user:ann"],
    )
    assert await site.state(done["token"], 30) == "synced"
    after = await read(site, "d")
    assert after["version"] == done["version"] > before["version"]
    assert (after["title"], after["uri"], after["collection"], after["acl"]) == (
        "New",
        "https://a/",
        "c",
        ["user:ann"],
    )
    assert after["metadata"] == {"kind": "note", "deep": {"a": 1, "c": 3}, "more": [1]}
    assert {name: after[name] for name in ("chunk_count", "state", "mime_type")} == {
        name: before[name] for name in ("chunk_count", "state", "mime_type")
    }
    token = (
        await patch(site, "d", title=None, uri=None, metadata=None, acl=None, collection=None)
    )["token"]
    assert await site.state(token, 30) == "synced"
    after = await read(site, "d")
    assert [after[name] for name in ("title", "uri", "metadata", "acl", "collection")] == [
        None,
        None,
        {},
        None,
        "default",
    ]
    assert await site.text("d") == TEXT
    assert site.embedder.embedded_documents == paid


async def test_a_patch_changes_what_was_accepted_last_also_while_that_waits(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    async with open_installation(settings, tmp_path, embedder) as site:
        await site.put("d", TEXT, title="One", metadata={"n": 1})
        await site.ended()
    # nothing is processed
    async with open_installation(settings, tmp_path, embedder, stages=()) as site:
        await site.put("d", OTHER, title="Two", metadata={"n": 2})
        await patch(site, "d", metadata={"patched": 1})
        await site.put("new", THIRD, title="New")
        await patch(site, "new", title="Newer", acl=["user:ann"])
        await patch(site, "new", metadata={"k": 1})
        params = {"principals": "user:bob"}
        assert (await site.http.get("/v1/documents/new", params=params)).status_code == 404
    async with open_installation(settings, tmp_path, embedder) as site:
        await site.ended()
        found, new = await read(site, "d"), await read(site, "new")
        assert (found["title"], found["metadata"], await site.text("d")) == (
            "Two",
            {"n": 2, "patched": 1},
            OTHER,
        )
        assert (new["title"], new["metadata"], new["acl"], await site.text("new")) == (
            "Newer",
            {"k": 1},
            ["user:ann"],
            THIRD,
        )
    assert len(embedder.embedded_documents) == len(set(embedder.embedded_documents)) == 3


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_a_patch_goes_on_with_a_text_that_waits_for_the_embedder(
    site: InProcessInstallation,
) -> None:
    await site.put("d", TEXT)
    await site.ended()
    site.embedder.answer = lambda texts, number: Reply(503)
    await site.put("d", "Another text.", title="Two")
    token = (await patch(site, "d", title="Three"))["token"]
    assert await site.state(token) == "pending"
    site.embedder.answer = lambda texts, number: None
    assert await site.state(token, 30) == "synced"
    assert ((await read(site, "d"))["title"], await site.text("d")) == ("Three", "Another text.")


async def test_writes_and_patches_at_the_same_time_are_in_the_order_of_their_versions(
    site: InProcessInstallation,
) -> None:
    for seed in range(4):
        rng, name = random.Random(seed), f"d{seed}"
        await site.put(name, "Text 0.", metadata={"put": 0})
        calls, bodies = [], []
        for n in range(1, 9):
            is_put = rng.random() < 0.4
            bodies.append((is_put, n))
            calls.append(
                site.put(name, f"Text {n}.", metadata={"put": n})
                if is_put
                else patch(site, name, metadata={f"p{n}": n})
            )
        answers = await gather_list(*calls)
        done = sorted(
            (answer["version"], *body) for answer, body in zip(answers, bodies, strict=True)
        )
        text, metadata = "Text 0.", {"put": 0}
        for _, is_put, n in done:
            text, metadata = (
                (f"Text {n}.", {"put": n}) if is_put else (text, {**metadata, f"p{n}": n})
            )
        await site.ended()
        found = await read(site, name)
        assert (found["metadata"], await site.text(name)) == (metadata, text), seed


async def test_what_is_not_there_is_not_patched_and_what_was_deleted_does_not_come_back(
    site: InProcessInstallation,
) -> None:
    assert (await site.http.patch("/v1/documents/never", json={"title": "x"})).status_code == 404
    await site.put("d", TEXT)
    await site.delete("d")
    assert (await site.http.patch("/v1/documents/d", json={"title": "x"})).status_code == 404
    await site.ended()
    assert (await site.http.patch("/v1/documents/d", json={"title": "x"})).status_code == 404
    await site.put("d", TEXT)
    token = (await patch(site, "d", title="x"))["token"]
    assert await site.state(token, 30) == "synced"


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_what_makes_no_sense_is_refused_by_the_name_of_its_field(
    site: InProcessInstallation,
) -> None:
    await site.put("d", TEXT)
    wrong: list[tuple[Any, str]] = [
        ({}, "body"),
        ([], "body"),
        ({"text": "a"}, "text"),
        ({"title": 1}, "title"),
        ({"title": "x" * 2001}, "title"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata"),
        ({"acl": "user:ann"}, "acl"),
        ({"acl": ["x"] * 1001}, "acl"),
        ({"collection": ""}, "collection"),
        ({"version": 7}, "version"),
        ({"mime_type": "text/plain"}, "mime_type"),
    ]
    for body, field in wrong:
        answer = await site.http.patch("/v1/documents/d", json=body)
        assert (
            answer.status_code == 422 and answer.json()["errors"][0]["pointer"] == f"#/{field}"
        ), (body, answer.text)
    merge = {"content-type": "application/merge-patch+json"}
    assert (
        await site.http.patch("/v1/documents/d", content=b'{"title": "x"}', headers=merge)
    ).status_code == 202
    plain: httpx.Response = await site.http.patch(
        "/v1/documents/d", content=b"x", headers={"content-type": "text/plain"}
    )
    assert plain.status_code == 415
    for n in range(3):
        await patch(site, "d", metadata={f"k{n}": "x" * 30_000})
    await site.ended()
    assert [letter.reason for letter in await site.s.letters.all()] == ["too_large"]


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_bytes_and_forms_are_searchable(site: InProcessInstallation) -> None:
    plain = {"content-type": "text/markdown"}
    put = await site.http.put(
        "/v1/documents/raw",
        content=TEXT.encode(),
        params={"title": "T", "acl": "user:ann"},
        headers=plain,
    )
    made = await site.http.post("/v1/documents", files={"file": ("note.md", OTHER.encode())})
    for answer in (put, made):
        assert (
            answer.status_code == 202 and await site.state(answer.json()["token"], 30) == "synced"
        ), answer.text
    assert await site.text("raw") == TEXT and await site.text(made.json()["document_id"]) == OTHER
    assert (await read(site, "raw"))["acl"] == ["user:ann"]
