"""The administration calls: what they report and change, for whom, and that tenants see nothing of
each other.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from livedex.app import reports
from livedex.app.administration import TenantAdministration
from livedex.pipeline.access.api_key_cache import open_api_key_cache
from livedex.pipeline.access.authenticator import CredentialAuthenticator
from livedex.pipeline.access.key_format import generate_key
from livedex.pipeline.api import api_keys
from livedex.pipeline.api.app import create_app
from livedex.pipeline.api.subscribers import NewSubscriber
from livedex.pipeline.http.authentication import SCOPES
from livedex.pipeline.model import TenantId
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.settings.subscriber import (
    SubscriberSettings,
    decode_secret,
)
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.dead_letter_store import DeadLetter
from livedex.pipeline.store.subscriber_store import SubscriberConfig, SubscriberStore
from tests.support.http.app_client import asgi_client, assert_problem
from tests.support.http.scripted_embedder import EmbeddingServer, Reply
from tests.support.pipelines.installation import (
    InProcessInstallation,
    open_installation,
    settings_for,
)
from tests.support.pipelines.stage_runner import kafka_settings

POISON = "This paragraph holds the word poison, which the model refuses to take, whatever comes."
FINE = "This paragraph holds nothing that anybody would object to, and the model takes it gladly."
OTHER = TenantId("globex")
CALLS = [
    ("GET", "/v1/status", None),
    ("GET", "/v1/sources", None),
    ("GET", "/v1/dead", None),
    ("GET", "/v1/dead/x", None),
    ("POST", "/v1/dead/x/replay", None),
    ("DELETE", "/v1/dead/x", None),
    ("GET", "/v1/keys", None),
    ("POST", "/v1/keys", {"name": "n", "scopes": ["search"]}),
    ("DELETE", "/v1/keys/x", None),
    ("GET", "/v1/subscribers", None),
    ("POST", "/v1/subscribers", {"name": "n"}),
    ("DELETE", "/v1/subscribers/x", None),
    ("POST", "/v1/subscribers/x/resume", None),
    ("GET", "/v1/settings", None),
    ("GET", "/v1/cost", None),
]
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()  # the same in every process


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    with EmbeddingServer(32) as server:
        yield server


@pytest.fixture
async def site(
    request: pytest.FixtureRequest, owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> AsyncIterator[InProcessInstallation]:
    broker = getattr(request, "param", "postgres")
    servers = request.getfixturevalue("kafka") if broker == "kafka" else None
    settings = settings_for(owner_url, servers, embedder, kafka_settings())
    async with open_installation(settings, tmp_path, embedder) as opened:
        yield opened


def refuse_poison(texts: list[str], _: int) -> Reply | None:
    return Reply(400, {"error": "no"}) if any("poison" in text for text in texts) else None


@pytest.mark.parametrize("site", ["postgres", "kafka"], indirect=True)
async def test_a_dead_letter_is_shown_replayed_and_embeds_only_what_was_refused(
    site: InProcessInstallation, embedder: EmbeddingServer
) -> None:
    embedder.answer = refuse_poison
    await site.put("a.md", POISON)
    await site.put("b.md", FINE)
    await site.ended()
    [letter] = (await site.http.get("/v1/dead")).json()["dead"]
    assert letter["document_id"] == "a.md" and letter["reason"]
    status = (await site.http.get("/v1/status")).json()
    assert status["dead"] == 1 and status["documents"]["dead"] == 1
    assert status["documents"]["synced"] == 1 and status["health"]["database"] == "ok"
    shown = (await site.http.get(f"/v1/dead/{letter['id']}")).json()
    assert shown["payload"] and shown["payload_encoding"] == "utf-8"
    embedder.answer = lambda texts, number: None
    answer = await site.http.post(f"/v1/dead/{letter['id']}/replay")
    assert (answer.status_code, answer.json()) == (
        202,
        {"id": letter["id"], "replayed": True, "stale": False},
    )
    await site.ended()
    assert await site.text("a.md") == POISON
    assert sorted(embedder.embedded_documents) == sorted([POISON, FINE])
    assert (await site.http.get("/v1/dead")).json() == {"dead": [], "next_cursor": None}


async def test_a_dropped_letter_is_gone_and_a_stale_one_is_not_sent(
    site: InProcessInstallation, embedder: EmbeddingServer
) -> None:
    embedder.answer = refuse_poison
    await site.put("a.md", POISON)
    await site.put("b.md", POISON)
    await site.ended()
    first, second = (await site.http.get("/v1/dead")).json()["dead"]
    assert (await site.http.delete(f"/v1/dead/{first['id']}")).status_code == 204
    assert (await site.http.delete(f"/v1/dead/{first['id']}")).status_code == 404
    assert (await site.http.get(f"/v1/documents/{first['document_id']}")).status_code == 404
    await site.s.letters.bury(
        replace(await site.s.letters.find(second["id"]), letter_id="copy", version=1)
    )
    await site.put(second["document_id"], FINE)
    await site.ended()
    answer = await site.http.post("/v1/dead/copy/replay")
    assert answer.json() == {"id": "copy", "replayed": False, "stale": True}


async def test_reports_are_those_of_the_commands(site: InProcessInstallation) -> None:
    await site.put("a.md", FINE)
    await site.ended()
    expected = await reports.status_report(site.s, site.s.database)
    status = (await site.http.get("/v1/status")).json()
    assert status.keys() == expected.keys() and status["documents"] == expected["documents"]
    assert status["embedding"] == expected["embedding"]
    settings = {x["name"]: x for x in (await site.http.get("/v1/settings")).json()["settings"]}
    assert settings["LIVEDEX_EMBEDDER"]["value"] == "openai:counting"
    assert not settings["LIVEDEX_EMBEDDER"]["is_default"]
    assert settings["LIVEDEX_CHUNK_SIZE"] == settings["LIVEDEX_CHUNK_SIZE"] | {
        "value": 1400,
        "is_default": True,
        "default": "1400",
    }
    assert settings["LIVEDEX_EMBEDDER_API_KEY"]["value"] == "***"
    assert settings["LIVEDEX_DATABASE_URL"]["value"] == "***"


@pytest.fixture
async def keyed(site: InProcessInstallation, owner_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the same installation, where every call needs a key."""
    async with open_api_key_cache(ApiKeyStore(site.s.database), owner_url) as cache:
        app = create_app(replace(site.services, tenancy=CredentialAuthenticator(cache, None)))
        async with app.router.lifespan_context(app), asgi_client(app) as client:
            yield client


async def key_for(site: InProcessInstallation, tenant: TenantId, *scopes: str) -> dict[str, str]:
    made = generate_key()
    await ApiKeyStore(site.s.database).create(
        tenant, made.key_id, "test", made.sha256, set(scopes), None
    )
    return {"authorization": f"Bearer {made.key}"}


async def test_every_call_needs_the_scope_admin(
    site: InProcessInstallation, keyed: httpx.AsyncClient
) -> None:
    others = await key_for(site, OTHER, *(SCOPES - {"admin"}))
    for method, path, body in CALLS:
        for headers in (others, {}):
            answer = await keyed.request(method, path, json=body, headers=headers)
            assert_problem(answer, 403)


async def test_tenants_see_and_change_nothing_of_each_other(
    site: InProcessInstallation, keyed: httpx.AsyncClient, embedder: EmbeddingServer
) -> None:
    embedder.answer = refuse_poison
    await site.put("secret-plan.md", POISON)
    await site.ended()
    [letter] = (await site.http.get("/v1/dead")).json()["dead"]
    mine = await key_for(site, OTHER, "admin")
    theirs = await key_for(site, TenantId("default"), "admin")
    body = {"name": "secret-shop", "url": "https://secret.example/hook"}
    assert (await keyed.post("/v1/subscribers", json=body, headers=theirs)).status_code == 201
    [key] = (await keyed.get("/v1/keys", headers=theirs)).json()["keys"]
    for path in ("/v1/status", "/v1/sources", "/v1/dead", "/v1/keys", "/v1/subscribers"):
        text = (await keyed.get(path, headers=mine)).text
        assert "secret" not in text and letter["id"] not in text and key["id"] not in text, path
    status = (await keyed.get("/v1/status", headers=mine)).json()
    assert status["dead"] == 0 and set(status["documents"].values()) == {0}
    assert (await keyed.get("/v1/dead", headers=mine)).json() == {"dead": [], "next_cursor": None}
    for method, path in (
        ("GET", "/v1/dead/{}"),
        ("POST", "/v1/dead/{}/replay"),
        ("DELETE", "/v1/dead/{}"),
        ("DELETE", "/v1/keys/{}"),
        ("DELETE", "/v1/subscribers/{}"),
        ("POST", "/v1/subscribers/{}/resume"),
    ):
        known = {"keys": key["id"], "subscribers": "secret-shop"}.get(
            path.split("/")[2], letter["id"]
        )
        foreign = await keyed.request(method, path.format(known), headers=mine)
        missing = await keyed.request(method, path.format("f" * len(known)), headers=mine)
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace(known, "") == missing.text.replace("f" * len(known), "")
    assert len((await keyed.get("/v1/dead", headers=theirs)).json()["dead"]) == 1
    assert (await keyed.post("/v1/subscribers", json=body, headers=mine)).status_code == 201
    assert (await keyed.delete("/v1/subscribers/secret-shop", headers=mine)).status_code == 204
    assert len((await keyed.get("/v1/subscribers", headers=theirs)).json()["subscribers"]) == 1


async def test_facts_about_the_installation_are_for_who_administers_it(
    site: InProcessInstallation, keyed: httpx.AsyncClient
) -> None:
    async def seen(client: httpx.AsyncClient, headers: dict[str, str]) -> tuple[object, ...]:
        status = (await client.get("/v1/status", headers=headers)).json()
        settings = (await client.get("/v1/settings", headers=headers)).json()["settings"]
        values = {setting["name"]: setting["value"] for setting in settings}
        assert values["LIVEDEX_EMBEDDER_API_KEY"] == "***"
        assert values["LIVEDEX_DIMENSIONS"] == 32 and values["LIVEDEX_LOG_LEVEL"] == "info"
        letters = (await client.get("/v1/dead", headers=headers)).json()["dead"]
        return (
            sorted(status["stages"]),
            status["health"]["broker"],
            values["LIVEDEX_EMBEDDER_URL"],
            [letter["id"] for letter in letters],
        )

    await site.s.letters.bury(
        DeadLetter("nobody", TenantId(UNKNOWN_TENANT), "chunk", None, None, "invalid", "no", 1)
    )
    await site.s.operations.set_health("broker", ok=False, detail="kafka-7.internal")
    stages, address = ["chunk", "embed", "sync"], site.embedder.url
    everything = (stages, "down: kafka-7.internal", address, ["nobody"])
    only = await key_for(site, OTHER, "admin")
    assert await seen(keyed, only) == everything
    await key_for(site, TenantId("acme"), "search")
    assert await seen(keyed, only) == ([], "down", "***", [])
    assert_problem(await keyed.delete("/v1/dead/nobody", headers=only), 404)
    assert await seen(site.http, {}) == everything
    assert (await site.http.delete("/v1/dead/nobody")).status_code == 204


async def test_dead_letters_are_listed_page_by_page(site: InProcessInstallation) -> None:
    for number in range(7):
        stage = "embed" if number % 2 else "chunk"
        await site.s.letters.bury(
            DeadLetter(
                f"l{number}", TenantId("default"), stage, f"{number}.md", 1, "rejected", "no", 1
            )
        )

    async def pages(**query: str | int) -> list[list[str]]:
        found, cursor = [], None
        while True:
            more = {"cursor": cursor} if cursor else {}
            page = (await site.http.get("/v1/dead", params={**query, **more})).json()
            found.append([letter["id"] for letter in page["dead"]])
            if (cursor := page["next_cursor"]) is None:
                return found

    assert await pages(limit=3) == [["l0", "l1", "l2"], ["l3", "l4", "l5"], ["l6"]]
    assert await pages(limit=7) == [[f"l{number}" for number in range(7)]]
    assert await pages(limit=2, stage="embed") == [["l1", "l3"], ["l5"]]
    assert await pages(stage="sync") == [[]]
    for wrong in ("?limit=0", "?limit=1001", "?cursor=x", "?cursor=WyJhIl0", "?stage=no", "?x=1"):
        assert_problem(await site.http.get(f"/v1/dead{wrong}"), 422)
    for odd in ("%00", "%ED%A0%80", "l0%00", "x" * 300):
        assert (await site.http.get(f"/v1/dead/{odd}")).status_code in (404, 422)


async def test_a_key_that_was_made_over_the_api_works_until_it_is_revoked(
    site: InProcessInstallation, keyed: httpx.AsyncClient
) -> None:
    admin = await key_for(site, OTHER, "admin")
    body = {"name": "website", "scopes": ["search"], "expires_in_days": 7}
    made = await keyed.post("/v1/keys", json=body, headers=admin)
    assert made.status_code == 201 and made.json()["tenant"] == OTHER
    new = {"authorization": f"Bearer {made.json()['key']}"}
    assert (await keyed.get("/v1/collections", headers=new)).status_code == 200
    listed = (await keyed.get("/v1/keys", headers=admin)).json()["keys"]
    assert [key["name"] for key in listed] == ["test", "website"]
    assert "key" not in listed[1] and listed[1]["state"] == "active"
    gone = await keyed.delete(f"/v1/keys/{made.json()['id']}", headers=admin)
    assert gone.status_code == 204
    for wrong in ({"scopes": ["root"]}, {"scopes": []}, {"name": "\x07"}, {"unknown": 1}):
        assert_problem(await keyed.post("/v1/keys", json=body | wrong, headers=admin), 422)


async def test_subscribers_are_created_listed_and_deleted(site: InProcessInstallation) -> None:
    made = await site.http.post(
        "/v1/subscribers", json={"name": "shop", "url": "https://shop.example/hook?token=t"}
    )
    assert made.status_code == 201 and len(decode_secret(made.json()["secret"])) == 32
    reader = {"name": "warehouse", "events": ["deleted"], "collections": ["a"], "keep_days": 2}
    assert (await site.http.post("/v1/subscribers", json=reader)).json()["secret"] is None
    await SubscriberStore(site.s.database).configure([])  # as a start of the role `notify` does
    listed = (await site.http.get("/v1/subscribers")).json()["subscribers"]
    assert [(x["name"], x["reads"], x["origin"], x["state"]) for x in listed] == [
        ("shop", False, "api", "ok"),
        ("warehouse", True, "api", "ok"),
    ]
    assert "token" not in str(listed) and listed[1]["events"] == ["deleted"]
    assert_problem(await site.http.post("/v1/subscribers", json=reader), 409)
    await site.put("a.md", FINE)
    await site.ended()
    assert [
        x["waiting"] for x in (await site.http.get("/v1/subscribers")).json()["subscribers"]
    ] == [
        1,
        0,
    ]
    assert (await site.http.delete("/v1/subscribers/shop")).status_code == 204
    assert_problem(await site.http.delete("/v1/subscribers/shop"), 404)
    assert (await site.http.get("/v1/status")).json()["stages"]["notify"]["waiting"] == 0


async def test_subscribers_of_livedex_toml_are_left_to_it(site: InProcessInstallation) -> None:
    settings = site.s.settings.model_copy(update={"subscriber": [SubscriberSettings(name="set")]})
    administration = TenantAdministration(replace(site.s, settings=settings))
    app = create_app(replace(site.services, administration=administration))
    async with app.router.lifespan_context(app), asgi_client(app) as client:
        assert_problem(await client.delete("/v1/subscribers/set"), 409)
        assert_problem(await client.post("/v1/subscribers", json={"name": "set"}), 409)
        store = SubscriberStore(site.s.database)
        await store.configure([SubscriberConfig(TenantId("default"), "left", ("dead",), (), True)])
        assert_problem(await client.delete("/v1/subscribers/left"), 409)
        async with site.s.database.tenant(TenantId("default")) as connection:
            await connection.execute("update subscribers set configured = false")
        assert (await client.delete("/v1/subscribers/left")).status_code == 204


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a/b"},
        {"name": ""},
        {"name": "\x00"},
        {"url": "http://shop.example/"},
        {"url": "ftp://shop.example/"},
        {"url": "https://"},
        {"url": None, "secret": SECRET},
        {"url": None, "attempts": 3},
        {"secret": "whsec_c2hvcnQ="},
        {"events": []},
        {"events": ["changed"]},
        {"collections": ["\x00"]},
        {"attempts": 11},
        {"keep_days": 0},
        {"tenant": "globex"},
    ],
    ids=str,
)
def test_a_subscriber_that_makes_no_sense_is_refused_without_repeating_it(
    wrong: dict[str, object],
) -> None:
    body = {"name": "shop", "url": "https://shop.example/"} | wrong
    with pytest.raises(ValidationError) as refused:
        NewSubscriber.model_validate(body)
    assert "c2hvcnQ" not in str(refused.value)


async def test_without_a_broker_a_replay_is_refused_and_nothing_is_lost(
    site: InProcessInstallation,
) -> None:
    letter = DeadLetter("l1", TenantId("default"), "chunk", "a.md", 1, "rejected", "no", 1)
    await site.s.letters.bury(letter)
    app = create_app(replace(site.services, administration=TenantAdministration(site.s)))
    async with app.router.lifespan_context(app), asgi_client(app) as client:
        assert_problem(await client.post("/v1/dead/l1/replay"), 503)
        assert [x["id"] for x in (await client.get("/v1/dead")).json()["dead"]] == ["l1"]


def test_scopes_of_new_keys_are_those_there_are() -> None:
    assert set(api_keys.Scope.__args__) == SCOPES
