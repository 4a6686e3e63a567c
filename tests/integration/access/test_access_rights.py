"""Rights over HTTP: which credential may say on whose behalf it asks, and that the rest is as if
it were not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from livedex.pipeline.access.jwks import JwksCache
from livedex.pipeline.access.jwt_verifier import JwtVerifier
from livedex.pipeline.ingest.sync_token import make_sync_token
from livedex.pipeline.model import DEFAULT_TENANT, DocumentId, TenantId
from livedex.pipeline.settings.jwt import JwtSettings
from livedex.pipeline.store.database import Database
from tests.support.builders.document_states import DocumentBuilder
from tests.support.http.app_client import asgi_client
from tests.support.http.keyed_api import authenticated_api
from tests.support.http.token_issuer import AUDIENCE, ISSUER, Issuer, signed_token

ACME = TenantId("acme")
ANN, HR = "user:ann", "group:h\u00fc & r"
ACLS = {"all": None, "ann": (ANN,), "hr": (HR,), "none": ()}


@pytest.fixture
async def http(
    database: Database, owner_url: str, filling: DocumentBuilder
) -> AsyncIterator[httpx.AsyncClient]:
    """An installation with a document for each of `ACLS`, all with the same text."""
    for name, acl in ACLS.items():
        await filling.sync(
            name,
            5,
            "saffron",
            tenant=ACME,
            acl=acl,
            collection="hidden" if name == "none" else "default",
        )
    settings = JwtSettings(
        jwks_url="https://x.example/", issuer=ISSUER, audience=AUDIENCE, principals_claim="groups"
    )
    tokens = JwtVerifier(JwksCache(Issuer()), settings)
    async with (
        authenticated_api(database, owner_url, tokens=tokens) as app,
        asgi_client(app) as client,
    ):
        yield client


@pytest.fixture
def key_of(new_key: Callable[..., Any]) -> Callable[..., Any]:
    async def make(*scopes: str) -> dict[str, str]:
        return {"X-API-Key": (await new_key(ACME, *scopes)).key}

    return make


def bearer(**claims: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {signed_token(**claims)}"}


async def seen(
    http: httpx.AsyncClient, headers: dict[str, str], principals: list[str] | None = None
) -> str:
    """The documents that somebody is told of, who must be told the same in every way; `all ann`."""
    body = {} if principals is None else {"principals": principals}
    answer = await http.post(
        "/v1/search", json={"query": "saffron", "mode": "keyword", **body}, headers=headers
    )
    assert answer.status_code == 200, answer.text
    found = sorted(hit["document_id"] for hit in answer.json()["hits"])
    if principals == []:
        return " ".join(found)
    params = {} if principals is None else {"principals": principals}
    page = (await http.get("/v1/documents", params=params, headers=headers)).json()["documents"]
    assert sorted(document["document_id"] for document in page) == found
    absent = await http.get("/v1/documents/absent", params=params, headers=headers)
    for name in ACLS:
        for path in (f"/v1/documents/{name}", f"/v1/documents/{name}/chunks"):
            told = await http.get(path, params=params, headers=headers)
            assert told.status_code == (200 if name in found else 404)
            assert name in found or told.content == absent.content
    collections = (await http.get("/v1/collections", params=params, headers=headers)).json()[
        "collections"
    ]
    assert sum(collection["documents"] for collection in collections) == len(found)
    return " ".join(found)


async def test_a_key_sees_what_is_for_everybody_unless_it_says_for_whom_it_asks_or_may_see_all(
    http: httpx.AsyncClient, key_of: Callable[..., Any]
) -> None:
    assert await seen(http, await key_of("search")) == "all"
    assert await seen(http, await key_of("search", "documents:write", "events:write")) == "all"
    trusted = await key_of("search", "act_as")
    assert await seen(http, trusted) == "all"
    assert await seen(http, trusted, []) == "all"
    assert await seen(http, trusted, [ANN]) == "all ann"
    assert await seen(http, trusted, [HR, ANN, "user:eve"]) == "all ann hr"
    assert await seen(http, await key_of("search", "documents:all")) == "all ann hr none"
    admin = await key_of("admin")
    assert await seen(http, admin) == "all ann hr none"
    assert await seen(http, admin, [HR]) == "all hr"
    assert await seen(http, admin, []) == "all"


@pytest.mark.parametrize(
    "scopes", [("search",), ("search", "documents:all"), ("search", "documents:write")]
)
async def test_a_key_that_is_not_trusted_may_not_say_for_whom_it_asks(
    http: httpx.AsyncClient, key_of: Callable[..., Any], scopes: tuple[str, ...]
) -> None:
    headers = await key_of(*scopes)
    for said in ([ANN], []):
        answer = await http.post(
            "/v1/search", json={"query": "saffron", "principals": said}, headers=headers
        )
        assert (answer.status_code, "act_as" in answer.json()["detail"]) == (403, True)
    for path in (
        "/v1/documents",
        "/v1/documents/ann",
        "/v1/documents/ann/chunks",
        "/v1/collections",
        "/v1/collections/default",
    ):
        assert (
            await http.get(path, params={"principals": ANN}, headers=headers)
        ).status_code == 403
    assert (
        await http.get(
            f"/v1/sync/{make_sync_token(ACME, DocumentId('ann'), 5)}",
            params={"principals": ANN},
            headers=headers,
        )
    ).status_code == 403


async def test_a_token_says_itself_for_whom_it_asks(http: httpx.AsyncClient) -> None:
    assert await seen(http, bearer()) == "all"
    assert await seen(http, bearer(groups=[ANN, "x\x00", 7, "*", " "])) == "all ann"
    assert await seen(http, bearer(groups=HR)) == "all hr"
    assert await seen(http, bearer(groups={"a": ANN})) == "all"
    assert await seen(http, bearer(groups=[ANN], scope="search act_as")) == "all ann"
    assert await seen(http, bearer(scope="search documents:all")) == "all ann hr none"
    for headers in (bearer(groups=[ANN]), bearer(scope="search act_as"), bearer(scope="admin")):
        answer = await http.post(
            "/v1/search", json={"query": "saffron", "principals": [HR]}, headers=headers
        )
        assert answer.status_code == 403
        assert (
            await http.get("/v1/documents", params={"principals": HR}, headers=headers)
        ).status_code == 403


async def test_without_a_claim_for_them_a_token_asks_on_nobodys_behalf(
    database: Database, owner_url: str, filling: DocumentBuilder
) -> None:
    for name, acl in ACLS.items():
        await filling.sync(name, 5, "saffron", tenant=ACME, acl=acl)
    tokens = JwtVerifier(
        JwksCache(Issuer()),
        JwtSettings(jwks_url="https://x.example/", issuer=ISSUER, audience=AUDIENCE),
    )
    async with (
        authenticated_api(database, owner_url, tokens=tokens) as app,
        asgi_client(app) as http,
    ):
        assert await seen(http, bearer(groups=[ANN], principals=[ANN])) == "all"


async def test_without_keys_everything_is_seen_and_whoever_asks_may_say_for_whom(
    database: Database, owner_url: str, filling: DocumentBuilder
) -> None:
    for name, acl in ACLS.items():
        await filling.sync(name, 5, "saffron", acl=acl)
    async with (
        authenticated_api(database, owner_url, DEFAULT_TENANT) as app,
        asgi_client(app) as http,
    ):
        assert await seen(http, {}) == "all ann hr none"
        assert await seen(http, {}, [ANN]) == "all ann"


async def test_each_request_is_for_whom_it_says_whatever_the_one_before_was(
    http: httpx.AsyncClient, key_of: Callable[..., Any]
) -> None:
    trusted, nobody, all_of_it = (
        await key_of("search", "act_as"),
        await key_of("search"),
        await key_of("admin"),
    )
    asks: list[tuple[dict[str, str], list[str] | None, str]] = [
        (trusted, [ANN], "all ann"),
        (nobody, None, "all"),
        (trusted, [HR], "all hr"),
        (all_of_it, None, "all ann hr none"),
        (bearer(groups=[ANN]), None, "all ann"),
    ]
    answers = await asyncio.gather(
        *(seen(http, headers, principals) for _ in range(6) for headers, principals, _ in asks)
    )
    assert answers == [right for _ in range(6) for *_, right in asks]


async def test_a_token_of_a_change_that_somebody_made_up_tells_nothing(
    http: httpx.AsyncClient, key_of: Callable[..., Any]
) -> None:
    reader, trusted, writer = (
        await key_of("search"),
        await key_of("search", "act_as"),
        await key_of("search", "documents:write"),
    )

    async def states(headers: dict[str, str], version: int, **params: str) -> list[str]:
        return [
            (
                await http.get(
                    f"/v1/sync/{make_sync_token(ACME, DocumentId(name), version)}",
                    params=params,
                    headers=headers,
                )
            ).json()["state"]
            for name in (*ACLS, "absent")
        ]

    for version, told in ((5, "synced"), (4, "superseded")):
        assert await states(reader, version) == [told, *["pending"] * 4]
        assert await states(trusted, version, principals=ANN) == [told, told, *["pending"] * 3]
        assert await states(writer, version) == [*[told] * 4, "pending"]
    begin = asyncio.get_running_loop().time()
    for name in ("none", "absent"):
        body = {
            "query": "saffron",
            "mode": "keyword",
            "after": make_sync_token(ACME, DocumentId(name), 5),
            "wait_s": 0.2,
        }
        answer = await http.post("/v1/search", json=body, headers=reader)
        assert [hit["document_id"] for hit in answer.json()["hits"]] == ["all"]
    assert asyncio.get_running_loop().time() - begin >= 0.4, "it waits for the one as for the other"


async def test_a_reader_is_told_only_of_its_own_principals(
    http: httpx.AsyncClient, filling: DocumentBuilder, key_of: Callable[..., Any]
) -> None:
    await filling.sync("both", 1, "saffron", tenant=ACME, acl=(HR, ANN))
    trusted, admin = await key_of("search", "act_as"), await key_of("admin")
    told = [
        (await http.get("/v1/documents/both", params={"principals": who}, headers=trusted)).json()[
            "acl"
        ]
        for who in (ANN, HR)
    ]
    assert told == [[ANN], [HR]]
    assert sorted((await http.get("/v1/documents/both", headers=admin)).json()["acl"]) == sorted(
        [ANN, HR]
    )
    assert (await http.get("/v1/documents/all", headers=admin)).json()["acl"] is None


@pytest.mark.parametrize(
    "principals",
    [
        "user:ann",
        {"a": 1},
        7,
        [7],
        [None],
        [""],
        ["*"],
        ["a\x00b"],
        ["a" * 257],
        [["a"]],
        [" a"],
        ["a"] * 1001,
    ],
)
async def test_principals_without_sense_are_refused(
    http: httpx.AsyncClient, key_of: Callable[..., Any], principals: object
) -> None:
    answer = await http.post(
        "/v1/search",
        json={"query": "saffron", "principals": principals},
        headers=await key_of("search", "act_as"),
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith("#/principals")


async def test_in_the_query_too_and_a_search_takes_none_there(
    http: httpx.AsyncClient, key_of: Callable[..., Any]
) -> None:
    trusted = await key_of("search", "act_as")
    for raw in ("", "%00", "*", "%ff%fe%00", "a" * 257, "%20a"):
        assert (
            await http.get(f"/v1/documents?principals={raw}", headers=trusted)
        ).status_code == 422, raw
    quoted = "'); drop table documents; --"
    assert (
        await http.get(
            "/v1/documents", params={"principals": [quoted, '{"}', "\\"]}, headers=trusted
        )
    ).status_code == 200
    assert (
        await http.post(
            "/v1/search?principals=user:ann", json={"query": "saffron"}, headers=trusted
        )
    ).status_code == 422


@pytest.mark.parametrize(
    "name",
    [
        "principal",
        "principals[]",
        "principals[0]",
        "Principals",
        "principals.0",
        " principals",
        "principalIds",
    ],
)
async def test_a_query_that_says_it_by_another_name_is_refused_and_not_misheard(
    http: httpx.AsyncClient, key_of: Callable[..., Any], name: str
) -> None:
    # reads everything where nothing is said
    both = await key_of("search", "act_as", "documents:all")
    for path in (
        "/v1/documents",
        "/v1/documents/ann",
        "/v1/documents/ann/chunks",
        "/v1/collections",
        "/v1/collections/default",
    ):
        answer = await http.get(path, params={name: ANN}, headers=both)
        assert (answer.status_code, "principals" in answer.json()["detail"]) == (422, True), path
    answer = await http.post(
        "/v1/search", params={name: ANN}, json={"query": "saffron"}, headers=both
    )
    assert answer.status_code == 422
    assert (
        await http.get("/v1/documents", params={"principals": ANN, "other": "1"}, headers=both)
    ).status_code == 422


async def test_who_writes_may_ask_what_became_of_it(
    http: httpx.AsyncClient, key_of: Callable[..., Any]
) -> None:
    token = make_sync_token(ACME, DocumentId("ann"), 5)
    for scope in ("search", "documents:write", "events:write"):
        assert (
            await http.get(f"/v1/sync/{token}", headers=await key_of(scope))
        ).status_code == 200, scope
        assert (
            await http.get(f"/v1/sync/{token}?principals=ann", headers=await key_of(scope))
        ).status_code == 403, scope
    refused = await http.get(f"/v1/sync/{token}", headers=await key_of("documents:all"))
    assert (refused.status_code, "documents:write" in refused.json()["detail"]) == (403, True)


async def test_no_name_of_a_principal_is_a_label_of_a_metric(
    http: httpx.AsyncClient, key_of: Callable[..., Any]
) -> None:
    trusted = await key_of("search", "act_as")

    async def lines() -> int:
        return len((await http.get("/metrics")).text.splitlines())

    await seen(http, trusted, [ANN])
    await lines()  # a request for /metrics adds series of its own
    before = await lines()
    for n in range(20):
        await seen(http, trusted, [f"user:{n}"])
    assert await lines() == before
    assert "user:" not in (await http.get("/metrics")).text


async def test_answers_need_the_scope_ask_and_cite_only_what_may_be_read(
    http: httpx.AsyncClient, key_of: Callable[..., Any]
) -> None:
    async def cited(headers: dict[str, str], **body: Any) -> set[str]:
        asked = {"question": "saffron", "mode": "keyword", "limit": 20, **body}
        answer = await http.post("/v1/ask", json=asked, headers=headers)
        assert answer.status_code == 200, answer.text
        streamed = await http.post("/v1/ask", json={**asked, "stream": True}, headers=headers)
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert all(name in streamed.text for name in ("event: sources", "event: answer"))
        found = {each["document_id"] for each in answer.json()["citations"]}
        assert all((f'"document_id":"{name}"' in streamed.text) == (name in seen) for name in ACLS)
        return found

    refused = await http.post("/v1/ask", json={"question": "x"}, headers=await key_of("search"))
    assert refused.status_code == 403 and "ask" in refused.json()["detail"]
    seen = {"all"}
    assert await cited(await key_of("ask")) == seen
    seen = {"all", "ann"}
    assert await cited(await key_of("ask", "act_as"), principals=[ANN]) <= seen
