"""Documents and events over HTTP down to what is visible, on both brokers."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from livedex.pipeline.events.event import Changed
from livedex.pipeline.ingest import request_ingester as receiver
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.settings.settings import Settings
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import (
    InProcessInstallation,
    gather_list,
    open_installation,
)

A, B, C = paragraph(1), paragraph(2), paragraph(3)


def event(number: str, text: str | None, subject: str = "d", **more: Any) -> dict[str, Any]:
    body = {"specversion": "1.0", "id": number, "source": "/crm", "subject": subject, **more}
    if text is None:
        return body | {"type": "livedex.document.deleted"}
    return body | {
        "type": "livedex.document.changed",
        "data": {"text": text, **more.pop("data", {})},
    }


async def send(site: InProcessInstallation, *events: dict[str, Any]) -> list[str]:
    answer = await site.http.post(
        "/v1/events",
        json=list(events),
        headers={"content-type": "application/cloudevents-batch+json"},
    )
    assert answer.status_code == 202, answer.text
    return list(answer.json()["tokens"])


async def test_what_was_written_is_read_after_its_token(site: InProcessInstallation) -> None:
    token = (await site.put("d", A))["token"]
    hits = (
        await site.http.post(
            "/v1/search", json={"query": "Marker1", "mode": "keyword", "after": token, "wait_s": 30}
        )
    ).json()["hits"]
    assert [hit["document_id"] for hit in hits] == ["d"]
    assert await site.state(token) == "synced"
    assert site.embedder.embedded_documents == [A]
    deleted = (await site.delete("d"))["token"]
    assert await site.state(deleted, 30) == "synced"
    assert await site.text("d") is None
    assert await site.state(token) == "superseded"


async def test_a_token_is_pending_from_the_start_and_ends_also_when_it_is_superseded_or_dead(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    async with open_installation(settings, tmp_path, embedder, stages=()) as site:
        first, late = (
            (await site.put("d", A, version=5))["token"],
            (await site.put("d", B, version=3))["token"],
        )
        refused = (await site.put("e", "x" * 900, version=1))["token"]
        assert [await site.state(token) for token in (first, late, refused)] == ["pending"] * 3
    embedder.answer = lambda texts, number: _refusing(texts)
    async with open_installation(settings, tmp_path, embedder) as site:
        assert await gather_list(*(site.state(token, 30) for token in (first, late, refused))) == [
            "synced",
            "superseded",
            "dead",
        ]
        assert embedder.embedded_documents == [A]


def _refusing(texts: list[str]) -> Any:
    from tests.support.http.scripted_embedder import Reply

    return (
        Reply(400, {"error": {"message": "no"}}) if any("xxxx" in text for text in texts) else None
    )


async def test_a_later_write_wins_however_many_write_at_the_same_time(
    site: InProcessInstallation,
) -> None:
    done = await gather_list(*(site.put("d", f"{A} {n}") for n in range(12)))
    versions = [answer["version"] for answer in done]
    assert len(set(versions)) == len(versions)
    last = await site.put("d", B)
    assert last["version"] > max(versions)
    await site.ended()
    assert (await site.text("d"), await site.version("d")) == (B, last["version"])
    assert await site.state(last["token"]) == "synced"


async def test_a_write_without_a_version_is_newer_than_every_version_before(
    site: InProcessInstallation,
) -> None:
    far = time.time_ns() + 12 * 3600 * 10**9
    await site.put("d", A, version=far)
    assert (await site.put("d", B))["version"] == far + 1
    assert (await site.delete("d"))["version"] == far + 2
    assert (await site.put("d", C))["version"] == far + 3
    await site.ended()
    assert await site.text("d") == C
    for beyond in (2**63 - 1, str(2**63 - 1), far + 13 * 3600 * 10**9):
        assert (
            await site.http.put("/v1/documents/e", json={"text": A, "version": beyond})
        ).status_code == 422
        assert (
            await site.http.delete("/v1/documents/e", params={"version": beyond})
        ).status_code == 422


async def test_the_same_again_changes_nothing_and_is_not_paid_twice(
    site: InProcessInstallation,
) -> None:
    first = await site.put("d", A, version=3)
    await site.ended()
    again = await gather_list(*(site.put("d", A, version=3) for _ in range(5)))
    await site.ended()
    assert {answer["token"] for answer in again} == {first["token"]}
    assert site.embedder.embedded_documents == [A]
    assert await site.version("d") == 3


async def test_twenty_deliveries_of_one_event_have_one_effect(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    async with (
        open_installation(settings, tmp_path, embedder) as one,
        open_installation(settings, tmp_path, embedder, stages=()) as other,
    ):
        calls = [
            workers.http.post(
                "/v1/events", json=event("7", A), headers={"x-request-id": f"attempt-{n}"}
            )
            for n, workers in zip(range(20), itertools.cycle((one, other)), strict=False)
        ]
        answers = await gather_list(*calls)
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["tokens"][0] for answer in answers}) == 1
        await one.ended()
        assert await one.text("d") == A
        assert embedder.embedded_documents == [A]
        [late] = await send(one, event("8", B))
        await send(one, event("7", A))
        await one.ended()
        assert await one.text("d") == B
        assert await one.state(late) == "synced"


async def test_the_same_content_with_a_newer_version_is_applied(
    site: InProcessInstallation,
) -> None:
    for version, text in ((1, A), (2, B), (3, A)):
        await site.put("d", text, version=version)
    await site.ended()
    assert (await site.text("d"), await site.version("d")) == (A, 3)
    await site.delete("d", version=4)
    await site.put("d", A, version=5)
    await site.ended()
    assert (await site.text("d"), await site.version("d")) == (A, 5)
    assert sorted(set(site.embedder.embedded_documents)) == sorted(
        set(site.embedder.embedded_documents) & {A, B}
    )
    assert len(site.embedder.embedded_documents) <= 2


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_the_newest_wins_in_every_order(
    site: InProcessInstallation, order: tuple[int, ...]
) -> None:
    events = [
        event("1", A, time="2026-01-01T00:00:01Z"),
        event("2", B, time="2026-01-01T00:00:02Z"),
        event("3", C, time="2026-01-01T00:00:03Z"),
    ]
    for n in order:
        await send(site, events[n])
    await site.ended()
    assert await site.text("d") == C
    assert (await site.s.operations.count_dead_letters()) == 0


async def test_a_delete_stays_until_something_newer_comes(site: InProcessInstallation) -> None:
    await site.put("d", A, version=1)
    await site.delete("d", version=3)
    await site.put("d", B, version=2)
    await site.ended()
    assert await site.text("d") is None
    await site.put("d", C, version=4)
    await site.delete("never seen", version=5)
    await site.put("never seen", A, version=4)
    await site.ended()
    assert (await site.text("d"), await site.text("never seen")) == (C, None)


async def test_a_document_with_the_greatest_version_can_be_deleted_alone_and_with_its_collection(
    site: InProcessInstallation,
) -> None:
    """None gets it any more, but an index may have one since before, or since its clock was set
    back.
    """
    for name in ("d", "e"):
        data = Changed(tenant_id="default", document_id=name, version=2**63 - 1, collection="notes")
        await site.intake.accept([Change(data, A.encode())])
    await site.put("f", B, collection="notes")
    await site.ended()
    await site.delete("d")
    await site.ended()
    assert await site.text("d") is None
    assert (await site.http.delete("/v1/collections/notes")).status_code == 202
    await site.ended()
    assert [await site.text(name) for name in ("d", "e", "f")] == [None] * 3
    refused = await site.http.put("/v1/documents/e", json={"text": C})
    assert (refused.status_code, "another id" in refused.json()["detail"]) == (409, True)


async def test_a_large_document_goes_its_way_beside_the_events(site: InProcessInstallation) -> None:
    text = "\n\n".join(paragraph(n) for n in range(800))
    assert len(text) > 262_144
    token = (await site.put("large", text))["token"]
    assert await site.state(token, 30) == "synced"


class Rude:
    """An intake that does what it is told first."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.rude, self.kept = inner, "", 0

    async def accept(self, changes: Any) -> None:
        if self.rude == "late":
            await self.inner.accept(changes)
            await asyncio.sleep(30)
        if self.rude == "raises":
            from livedex.pipeline.errors import OutageError

            raise OutageError("broker", "no")
        self.kept += 1
        await self.inner.accept(changes)


@pytest.mark.parametrize("rude", ["late", "raises"])
async def test_what_was_refused_for_now_has_one_effect_when_it_is_sent_again(
    settings: Settings,
    tmp_path: Path,
    embedder: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
    rude: str,
) -> None:
    monkeypatch.setattr(receiver, "ACCEPT_TIMEOUT_S", 1.0)
    async with open_installation(settings, tmp_path, embedder, intake_of=Rude) as site:
        assert isinstance(site.intake, Rude)
        site.intake.rude = rude
        answer = await site.http.post("/v1/events", json=event("7", A))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        site.intake.rude = ""
        first = (await site.http.post("/v1/events", json=event("7", A))).json()["tokens"]
        assert (await site.http.post("/v1/events", json=event("7", A))).json()["tokens"] == first
        await site.ended()
        assert await site.text("d") == A
        assert embedder.embedded_documents == [A]
