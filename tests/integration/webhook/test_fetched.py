"""Contents by their URL down to what is visible, on both brokers, from a server that answers as it
is told to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from livedex.app.broker import open_broker
from livedex.pipeline.settings.fetch import FetchSettings
from livedex.pipeline.settings.settings import Settings
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.http.scripted_website import WebResponse, WebServer, redirect
from tests.support.pipelines.brokers import on_alternating_brokers, on_postgres
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import (
    InProcessInstallation,
    gather_list,
    open_installation,
)

A, B, C = paragraph(1), paragraph(2), paragraph(3)


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture
def hanging() -> Iterator[WebServer]:
    """Answers each request after 1.9 s."""
    with WebServer() as server:
        server.pages["/"] = lambda visit: (time.sleep(1.9), page(A))[1]
        yield server


@pytest.fixture
async def site(
    settings: Settings,
    tmp_path: Path,
    embedder: EmbeddingServer,
    web: WebServer,
    hanging: WebServer,
) -> AsyncIterator[InProcessInstallation]:
    fetch = FetchSettings(
        allow_hosts=f"127.0.0.1:{web.port},127.0.0.1:{hanging.port}", timeout_s=3, retry_s=0
    )
    async with open_installation(
        settings.model_copy(update={"fetch": fetch, "max_document_bytes": 100_000}),
        tmp_path,
        embedder,
    ) as opened:
        yield opened


def page(text: str, etag: str | None = None, **headers: str) -> WebResponse:
    return WebResponse(
        text.encode(),
        headers={
            "content-type": "text/plain; charset=utf-8",
            **headers,
            **({"etag": etag} if etag else {}),
        },
    )


async def link(site: InProcessInstallation, document_id: str, url: str, **more: Any) -> str:
    """Say where a document's content is, and give the token of the change."""
    answer = await site.http.put(f"/v1/documents/{document_id}", json={"url": url, **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["token"])


async def linked(
    site: InProcessInstallation, document_id: str, url: str, **more: Any
) -> dict[str, Any]:
    """The document, once its change has ended."""
    token = await link(site, document_id, url, **more)
    assert await site.state(token, 30) == "synced"
    return dict((await site.http.get(f"/v1/documents/{document_id}")).json())


async def letters(site: InProcessInstallation) -> list[tuple[str, str]]:
    return [(letter.reason, letter.detail) for letter in await site.s.letters.all()]


@on_postgres
async def test_an_unchanged_content_costs_one_request_and_no_embedding_and_its_version_goes_on(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages["/a"] = page(
        f"---\ntitle: Own\nteam: front\n---\n{A}\n\n# Part\n\n{B}",
        '"1"',
        **{"content-type": "text/markdown"},
    )
    first = await linked(site, "d", f"{web.url}/a", metadata={"team": "back", "n": 1})
    paid, text = list(site.embedder.embedded_documents), await site.text("d")
    assert first["metadata"] == {"team": "front", "title": "Own", "n": 1} and len(paid) == 2
    second = await linked(
        site, "d", f"{web.url}/a", metadata={"team": "back", "n": 2}, collection="other"
    )
    assert [visit.headers.get("if-none-match") for visit in web.requests] == [None, '"1"']
    assert site.embedder.embedded_documents == paid and await site.text("d") == text
    assert second["version"] > first["version"] and (second["collection"], second["title"]) == (
        "other",
        "Own",
    )
    assert second["metadata"] == {"team": "front", "title": "Own", "n": 2}
    third = await linked(site, "d", f"{web.url}/a")
    assert third["version"] > second["version"] and [
        visit.headers.get("if-none-match") for visit in web.requests
    ][2:] == ['"1"']
    web.pages["/a"] = page(C, '"2"')
    await linked(site, "d", f"{web.url}/a")
    assert await site.text("d") == C and len(web.requests) == 4


@on_postgres
async def test_rights_of_an_unchanged_content_are_those_of_the_newer_event(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection
) -> None:
    web.pages["/a"] = page(A, '"1"')
    await link(site, "d", f"{web.url}/a", acl=["group:everybody"])
    await site.ended()
    await link(site, "d", f"{web.url}/a", acl=["group:board"])
    await site.ended()
    row = await owner.fetchrow("select acl, next_acl, state from documents")
    assert (row["acl"], row["next_acl"], row["state"]) == (["group:board"], None, "synced")
    assert (web.requests[1].headers.get("if-none-match"), site.embedder.embedded_documents) == (
        '"1"',
        [A],
    )


async def test_what_is_known_of_a_content_counts_only_while_it_is_the_visible_one(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages |= {"/a": page(A, '"1"'), "/b": page(B, '"1"')}
    await linked(site, "d", f"{web.url}/a")
    await site.put("d", C)
    await site.ended()
    await linked(site, "d", f"{web.url}/a")  # another version was visible meanwhile
    assert await site.text("d") == A
    await linked(site, "d", f"{web.url}/b")  # the same validator of another URL
    assert await site.text("d") == B
    await site.delete("d")
    await site.ended()
    await linked(site, "d", f"{web.url}/b")  # deleted meanwhile
    assert await site.text("d") == B
    assert [visit.headers.get("if-none-match") for visit in web.requests] == [None] * 4


async def test_what_could_not_be_made_visible_is_not_taken_for_it(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages["/a"] = page(A, '"1"')
    await linked(site, "d", f"{web.url}/a")
    site.embedder.answer = lambda texts, number: (
        Reply(400, {"error": {"message": "no"}}) if B in texts else None
    )
    web.pages["/a"] = page(B, '"2"')
    assert await site.state(await link(site, "d", f"{web.url}/a"), 30) == "dead"
    assert await site.text("d") == A
    site.embedder.answer = lambda texts, number: None
    await linked(site, "d", f"{web.url}/a")
    assert await site.text("d") == B
    assert '"2"' not in [visit.headers.get("if-none-match") for visit in web.requests]


@on_postgres
async def test_pieces_that_are_not_those_of_the_content_are_not_taken_for_it(
    site: InProcessInstallation, web: WebServer, owner: asyncpg.Connection
) -> None:
    web.pages["/a"] = page(A, '"1"')
    await linked(site, "d", f"{web.url}/a")
    await owner.execute("update fetched_contents set made = sha256('else')")
    await linked(site, "d", f"{web.url}/a")
    assert [visit.headers.get("if-none-match") for visit in web.requests] == [None, '"1"', None]
    assert (await site.text("d"), site.embedder.embedded_documents) == (A, [A])


@on_postgres
async def test_a_validator_is_one_of_the_place_that_a_redirect_leads_to(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages |= {"/now": redirect("/a"), "/a": page(A, '"1"'), "/b": page(B, '"1"')}
    await linked(site, "d", f"{web.url}/now")
    await linked(site, "d", f"{web.url}/now")
    web.pages["/now"] = redirect("/b")
    await linked(site, "d", f"{web.url}/now")
    assert await site.text("d") == B
    known = [(visit.target, visit.headers.get("if-none-match")) for visit in web.requests]
    assert known == [
        ("/now", None),
        ("/a", None),
        ("/now", None),
        ("/a", '"1"'),
        ("/now", None),
        ("/b", None),
    ]


async def test_a_repeated_event_that_has_ended_asks_nobody(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages["/a"] = page(A)
    for _ in range(3):
        await linked(site, "d", f"{web.url}/a", version=5)
    await site.put("d", B, version=9)
    await site.ended()
    await link(site, "d", f"{web.url}/a", version=6)
    await site.ended()
    assert (
        await site.text("d"),
        web.asked("/a"),
        await site.s.operations.count_dead_letters(),
    ) == (B, 1, 0)


async def test_a_content_that_is_not_there_yet_is_waited_for(
    site: InProcessInstallation, web: WebServer
) -> None:
    answers = iter([WebResponse(status=404), WebResponse(status=404), page(A)])
    web.pages["/a"] = lambda visit: next(answers)
    await linked(site, "d", f"{web.url}/a")
    assert (await site.text("d"), web.asked("/a")) == (A, 3)


async def test_content_that_never_arrives_is_a_dead_letter_and_the_old_version_stays(
    site: InProcessInstallation, web: WebServer
) -> None:
    await site.put("d", A, version=1)
    assert (
        await site.state(await link(site, "d", f"{web.url}/a?token=of-the-url", version=2), 30)
        == "dead"
    )
    assert await site.text("d") == A
    [(reason, detail)] = await letters(site)
    assert (
        reason == "retries_exhausted"
        and "HTTP 404" in detail
        and "of-the-url" not in detail
        and web.asked("/a?token=of-the-url") == 5
    )
    document = (await site.http.get("/v1/documents/d")).json()
    assert document["state"] == "dead" and "of-the-url" not in document["error"]
    web.pages["/a?token=of-the-url"] = page(B)
    async with open_broker(site.s) as running:
        letter = await site.s.letters.find((await site.s.letters.all())[0].letter_id)
        await running.broker.republish_dead_letter(letter)
        await site.s.letters.remove(letter, forget=False)
        await site.ended()
    assert (await site.text("d"), await site.version("d"), site.embedder.embedded_documents) == (
        B,
        2,
        [A, B],
    )


async def test_a_content_that_is_deleted_before_it_was_fetched_ends_deleted(
    site: InProcessInstallation, web: WebServer
) -> None:
    token = await link(site, "d", f"{web.url}/a")
    while web.asked("/a") < 2:
        await asyncio.sleep(0.05)
    await site.delete("d")
    await site.ended()
    assert await site.text("d") is None and await site.state(token) in ("superseded", "dead")
    # there, the delete waits for the records of its key before it
    if not site.s.settings.kafka_servers:
        assert await site.s.operations.count_dead_letters() == 0


async def test_a_newer_version_does_not_wait_for_an_older_one_whose_server_is_away(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages["/a"] = WebResponse(status=500)
    token = await link(site, "d", f"{web.url}/a", version=1)
    while web.asked("/a") < 2:
        await asyncio.sleep(0.05)
    assert await site.state((await site.put("d", B, version=2))["token"], 15) == "synced"
    assert await site.text("d") == B and await site.s.operations.count_dead_letters() == 0
    assert await site.state(token) == "superseded"
    assert web.asked("/a") <= 3, (
        "the attempt after that is 16 s away, and finds that there is a newer one"
    )


@on_postgres
async def test_a_type_that_says_nothing_yields_to_the_name(
    site: InProcessInstallation, web: WebServer
) -> None:
    text = f"# Tea\n\n{A}"
    for n, kind in enumerate(
        (
            "text/plain",
            "application/octet-stream",
            "text/markdown; charset=utf-8",
            "text/plain; charset=us-ascii",
        )
    ):
        web.pages[f"/{n}/notes.md?x=1"] = WebResponse(text.encode(), headers={"content-type": kind})
        document = await linked(site, f"d{n}", f"{web.url}/{n}/notes.md?x=1")
        assert (document["mime_type"], document["title"]) == ("text/markdown", "Tea"), kind
    web.pages["/page"] = WebResponse(text.encode(), headers={"content-type": "text/plain"})
    assert (await linked(site, "plain", f"{web.url}/page"))["mime_type"] == "text/plain"
    assert len(site.embedder.embedded_documents) == 1


@on_postgres
async def test_a_server_that_refuses_us_for_good_is_a_dead_letter(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages["/a"] = WebResponse(status=403)
    assert await site.state(await link(site, "d", f"{web.url}/a"), 30) == "dead"
    [(reason, detail)] = await letters(site)
    assert reason == "retries_exhausted" and "credentials" in detail and web.asked("/a") == 5


@on_alternating_brokers(["status"], [[401], [403], [407]])
async def test_a_server_that_refuses_us_for_a_while_is_asked_again(
    site: InProcessInstallation, web: WebServer, status: int
) -> None:
    answers = iter([WebResponse(status=status), page(A)])
    web.pages["/a"] = lambda visit: next(answers)
    await linked(site, "d", f"{web.url}/a")
    assert (await site.text("d"), await site.s.operations.count_dead_letters()) == (A, 0)


async def test_a_server_that_comes_back_is_asked_again(
    site: InProcessInstallation, web: WebServer
) -> None:
    answers = iter([WebResponse(status=503), page(A)])
    web.pages["/a"] = lambda visit: next(answers)
    await linked(site, "d", f"{web.url}/a")
    assert await site.text("d") == A


async def test_patience_that_is_asked_for_uses_up_no_attempts(
    site: InProcessInstallation, web: WebServer
) -> None:
    begun = time.monotonic()

    def answer(visit: Any) -> WebResponse:
        return (
            page(A)
            if time.monotonic() - begun > 2
            else WebResponse(status=429, headers={"retry-after": "2"})
        )

    web.pages |= {f"/{n}": answer for n in range(12)}
    tokens = await gather_list(*(link(site, f"d{n}", f"{web.url}/{n}") for n in range(12)))
    assert {await site.state(token, 30) for token in tokens} == {"synced"}
    assert len(web.requests) < 12 + 8, "one that was told to wait spoke for the others"


@on_postgres
async def test_what_is_too_large_is_a_state_and_the_old_text_is_out(
    site: InProcessInstallation, web: WebServer
) -> None:
    web.pages["/a"] = page(A)
    await linked(site, "d", f"{web.url}/a")
    web.pages["/a"] = page("x" * 100_001)
    token = await link(site, "d", f"{web.url}/a")
    assert await site.state(token, 30) == "synced"
    document = (await site.http.get("/v1/documents/d")).json()
    assert (document["state"], document["chunk_count"]) == (
        "too_large",
        0,
    ) and "LIVEDEX_MAX_DOCUMENT_BYTES" in document["error"]


@on_postgres
@pytest.mark.parametrize(
    "form",
    [
        "http://127.0.0.1:{port}/",
        "http://127.1:{port}/",
        "http://u@docs.example/",
        "http://[::ffff:127.0.0.1]:{port}/",
    ],
)
async def test_a_url_that_is_never_fetched_is_refused_when_it_comes(
    site: InProcessInstallation, form: str
) -> None:
    with WebServer() as inside:
        url = form.format(port=inside.port)
        event = {
            "specversion": "1.0",
            "id": "1",
            "source": "/x",
            "type": "livedex.document.changed",
            "subject": "d",
            "data": {"url": url},
        }
        for answer in (
            await site.http.put("/v1/documents/d", json={"url": url}),
            await site.http.post("/v1/events", json=event),
        ):
            assert answer.status_code == 422 and answer.json()["errors"][0]["pointer"].endswith(
                "url"
            )
            assert url not in answer.text
        assert inside.connections == 0


@on_postgres
async def test_a_name_that_leads_inside_and_a_redirect_that_does_are_dead_letters(
    site: InProcessInstallation, web: WebServer
) -> None:
    with WebServer() as inside:
        web.pages["/out"] = redirect(f"{inside.url}/")
        tokens = [
            await link(site, "a", f"http://localhost:{inside.port}/"),
            await link(site, "b", f"{web.url}/out"),
        ]
        assert [await site.state(token, 30) for token in tokens] == ["dead", "dead"]
        reasons = sorted(reason for reason, _ in await letters(site))
        assert reasons == ["address_refused", "retries_exhausted"] and inside.connections == 0, (
            "a name is told from one that is not there by nothing"
        )


async def test_a_server_that_hangs_holds_up_no_documents_but_its_own(
    site: InProcessInstallation, web: WebServer, hanging: WebServer
) -> None:
    web.pages |= {f"/{n}": page(paragraph(100 + n)) for n in range(10)}
    slow = [await link(site, f"slow{n}", f"{hanging.url}/") for n in range(80)]
    others = [str((await site.put(f"t{n}", paragraph(200 + n)))["token"]) for n in range(10)]
    others += [await link(site, f"u{n}", f"{web.url}/{n}") for n in range(10)]
    assert {await site.state(token, 30) for token in others} == {"synced"}
    assert hanging.connections < len(slow) // 2, "all of the others came before most of these"
