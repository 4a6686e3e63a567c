"""What `GET /v1/sync/{token}` says of a change: its state, and what it took."""

from __future__ import annotations

from typing import Any

import pytest

from livedex.pipeline.settings.settings import Settings
from tests.support.http.scripted_embedder import Reply
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import InProcessInstallation

A, B, C = (f"# {n}\n\n{paragraph(n)}\n\n" for n in (1, 2, 3))
TOOK = ("chunks", "embedded", "reused", "deleted")


async def report(site: InProcessInstallation, token: str) -> dict[str, Any]:
    return dict((await site.http.get(f"/v1/sync/{token}", params={"wait_s": 30})).json())


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_a_change_says_what_it_took(site: InProcessInstallation, settings: Settings) -> None:
    first = await site.put("d", A + B)
    found = await report(site, first["token"])
    assert [found[name] for name in ("state", "attempts", "error", *TOOK)] == [
        "synced",
        None,
        None,
        2,
        2,
        0,
        0,
    ]
    assert found["tokens"] >= len(A) // 4
    second = await report(site, (await site.put("d", A + C))["token"])
    assert [second[name] for name in ("state", *TOOK)] == ["synced", 2, 1, 1, 1] and 0 < second[
        "tokens"
    ] < found["tokens"]
    assert await report(site, first["token"]) == {
        "state": "superseded",
        **dict.fromkeys(("attempts", "error", *TOOK, "tokens", "cost")),
    }
    patched = await site.http.patch("/v1/documents/d", json={"title": "T"})
    third = await report(site, patched.json()["token"])
    assert [third[name] for name in ("state", *TOOK, "tokens")] == ["synced", 2, 0, 2, 0, 0]
    empty = await report(site, (await site.put("d", " \n"))["token"])
    assert (empty["state"], empty["chunks"], empty["deleted"]) == (
        "synced",
        0,
        2,
    ) and "no text" in empty["error"]
    gone = await report(site, (await site.delete("d"))["token"])
    assert (gone["state"], gone["chunks"], gone["embedded"]) == ("synced", 0, 0)


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_a_change_that_died_says_why_and_after_how_many_attempts(
    site: InProcessInstallation, settings: Settings
) -> None:
    site.embedder.answer = lambda texts, number: (
        Reply(400) if any(paragraph(1) in text for text in texts) else None
    )
    found = await report(site, (await site.put("d", A))["token"])
    assert (
        found["state"] == "dead"
        and found["attempts"] == 1
        and found["error"]
        and found["chunks"] is None
    )
