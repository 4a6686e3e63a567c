"""Keys over HTTP: whose data they open, and when they open nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.database import Database
from tests.support.builders.document_states import DocumentBuilder
from tests.support.http.app_client import asgi_client
from tests.support.http.keyed_api import authenticated_api


def bearer(key: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.key}"}


async def test_each_key_opens_its_own_tenant_whatever_else_stands_in_the_request(
    database: Database, owner_url: str, filling: DocumentBuilder, new_key: Callable[..., Any]
) -> None:
    for tenant in ("acme", "other"):
        await filling.sync("same-id", 1, f"harbour of {tenant}", tenant=tenant)
    keys = {tenant: await new_key(tenant) for tenant in ("acme", "other")}
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        for _ in range(25):
            for tenant, key in keys.items():
                found = (
                    await http.get(
                        "/v1/documents/same-id/chunks",
                        headers={"X-API-Key": key.key, "X-Tenant": "acme"},
                    )
                ).json()
                assert [chunk["content"] for chunk in found["chunks"]] == [f"harbour of {tenant}"]
        answers = await asyncio.gather(
            *(
                http.post(
                    "/v1/search",
                    json={"query": "harbour", "mode": "keyword"},
                    headers=bearer(keys[tenant]),
                )
                for tenant in ("acme", "other") * 25
            )
        )
        assert [[hit["content"] for hit in answer.json()["hits"]] for answer in answers] == [
            ["harbour of acme"],
            ["harbour of other"],
        ] * 25


async def test_without_a_credential_a_service_of_tenants_refuses_and_one_with_one_tenant_answers(
    database: Database, owner_url: str, new_key: Callable[..., Any]
) -> None:
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        answer = await http.get("/v1/documents")
        assert (answer.status_code, answer.json()["type"]) == (
            403,
            "urn:livedex:problem:tenant-required",
        )
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"):
            assert (await http.get(path)).status_code == 200
    async with (
        authenticated_api(database, owner_url, TenantId("default")) as app,
        asgi_client(app) as http,
    ):
        assert (await http.get("/v1/documents")).status_code == 200
    key = await new_key("acme")
    async with (
        authenticated_api(database, owner_url, TenantId("default")) as app,
        asgi_client(app) as http,
    ):
        assert (await http.get("/v1/documents")).status_code == 403
        assert (await http.get("/v1/documents", headers=bearer(key))).status_code == 200
        assert (await http.get("/v1/documents", headers={"X-API-Key": "wrong"})).status_code == 401


async def test_unknown_expired_and_revoked_keys_get_the_very_same_answer(
    database: Database, owner_url: str, owner: asyncpg.Connection, new_key: Callable[..., Any]
) -> None:
    expired, revoked, other = (
        await new_key("acme", days=1),
        await new_key("acme"),
        await new_key("acme"),
    )
    await owner.execute(
        "update api_keys set expires_at = now() - interval '1 second' where key_id = $1",
        expired.key_id,
    )
    await ApiKeyStore(database).revoke(revoked.key_id)
    wrong = other.key[:-4] + ("0000" if not other.key.endswith("0000") else "1111")
    shown = [
        expired.key,
        revoked.key,
        wrong,
        "ldx_0123456789ab_" + "0" * 64,
        "nonsense",
        "k\u00e9y",
        "' or true --",
    ]
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        answers = [
            await http.get("/v1/documents", headers=[(b"x-api-key", key.encode("latin-1"))])
            for key in shown
        ]
        assert {answer.status_code for answer in answers} == {401}
        assert len({answer.content for answer in answers}) == 1
        assert all(answer.headers["www-authenticate"].startswith("Bearer") for answer in answers)
        assert answers[0].headers["content-type"] == "application/problem+json"


async def test_a_revoked_key_opens_nothing_any_more_on_another_process(
    database: Database, owner_url: str, owner: asyncpg.Connection, new_key: Callable[..., Any]
) -> None:
    key = await new_key("acme")
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        while not await owner.fetchval(
            "select count(*) from pg_stat_activity where application_name = "
            "'livedex-listening' and query ilike 'listen%'"
        ):
            await asyncio.sleep(0.01)
        assert (await http.get("/v1/documents", headers=bearer(key))).status_code == 200
        await ApiKeyStore(database).revoke(key.key_id)
        begin = time.monotonic()
        while (await http.get("/v1/documents", headers=bearer(key))).status_code != 401:
            await asyncio.sleep(0.01)
            assert time.monotonic() - begin < 5, "later than stated"


async def test_a_scope_is_needed_for_each_call(
    database: Database, owner_url: str, new_key: Callable[..., Any]
) -> None:
    reader, writer, admin = (
        await new_key("acme"),
        await new_key("acme", "documents:write"),
        await new_key("acme", "admin"),
    )
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        for key, reads, writes in ((reader, 200, 403), (writer, 403, 201), (admin, 200, 201)):
            assert (await http.get("/v1/collections", headers=bearer(key))).status_code == reads
            embedded = await http.post(
                "/v1/embeddings", json={"text": "refunds"}, headers=bearer(key)
            )
            assert embedded.status_code == (403 if reads == 403 else 503), "no model runs here"
            made = await http.post(
                "/v1/collections", json={"name": key.key_id}, headers=bearer(key)
            )
            assert made.status_code == writes
            if writes == 403:
                assert (made.json()["type"], "documents:write" in made.json()["detail"]) == (
                    "urn:livedex:problem:forbidden",
                    True,
                )
        assert (await http.post("/v1/embeddings", json={"text": "refunds"})).status_code == 403


async def test_of_a_key_only_a_hash_is_kept_and_its_use_is_noted(
    database: Database, owner_url: str, owner: asyncpg.Connection, new_key: Callable[..., Any]
) -> None:
    key = await new_key("acme")
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        assert (await http.get("/v1/documents", headers=bearer(key))).status_code == 200
    row = await owner.fetchrow(
        "select api_keys.*, api_keys::text as whole from api_keys where key_id = $1", key.key_id
    )
    assert row["last_used_at"] is not None
    assert row["sha256"] == key.sha256
    assert key.key.split("_")[2] not in row["whole"]


async def test_keys_of_other_tenants_are_not_to_be_seen_by_a_query(
    database: Database, new_key: Callable[..., Any]
) -> None:
    await new_key("acme")
    async with database.tenant(TenantId("other")) as connection:
        assert await connection.fetchval("select count(*) from api_keys") == 0
        assert await connection.execute("update api_keys set revoked_at = now()") == "UPDATE 0"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(
                "insert into api_keys (key_id, tenant_id, name, sha256, scopes) values ('x', "
                "'acme', '', '', '{}')"
            )


async def test_revoking_what_is_no_key_says_so(database: Database) -> None:
    with pytest.raises(NotFoundError, match="keys list"):
        await ApiKeyStore(database).revoke("0123456789ab")
