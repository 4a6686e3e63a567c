"""Tokens over HTTP, with keys fetched from a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from livedex.pipeline.access.jwks import open_jwks
from livedex.pipeline.access.jwt_verifier import JwtVerifier
from livedex.pipeline.errors import OutageError
from livedex.pipeline.settings.jwt import JwtSettings
from livedex.pipeline.store.database import Database
from tests.support.builders.document_states import DocumentBuilder
from tests.support.http.app_client import asgi_client
from tests.support.http.keyed_api import authenticated_api
from tests.support.http.token_issuer import AUDIENCE, ISSUER, public_jwk, signed_token

KEYS = orjson.dumps({"keys": [public_jwk("RSA", "a")]})


@asynccontextmanager
async def publishing(answer: bytes) -> AsyncIterator[str]:
    """A server that gives one answer to whatever it is asked; its URL."""

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(give, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    finally:
        server.close()


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body


async def test_a_token_opens_its_tenant_and_any_other_gets_one_answer(
    database: Database, owner_url: str, filling: DocumentBuilder
) -> None:
    for tenant in ("acme", "other"):
        await filling.sync("same", 1, f"text of {tenant}", tenant=tenant)
    async with publishing(ok(KEYS)) as url, open_jwks(url) as keys:
        tokens = JwtVerifier(keys, JwtSettings(jwks_url=url, issuer=ISSUER, audience=AUDIENCE))
        async with (
            authenticated_api(database, owner_url, tokens=tokens) as app,
            asgi_client(app) as http,
        ):
            for tenant in ("acme", "other", "acme"):
                found = await http.get(
                    "/v1/documents/same/chunks",
                    headers={"Authorization": f"Bearer {signed_token(tenant=tenant)}"},
                )
                assert [chunk["content"] for chunk in found.json()["chunks"]] == [
                    f"text of {tenant}"
                ]
            bad = [signed_token(exp=1), signed_token(aud="x"), signed_token(name="other"), "a.b.c"]
            answers = [
                await http.get("/v1/documents", headers={"X-API-Key": shown}) for shown in bad
            ]
            assert {answer.status_code for answer in answers} == {401} and len(
                {answer.content for answer in answers}
            ) == 1
            nobody = await http.get(
                "/v1/documents", headers={"Authorization": f"Bearer {signed_token(tenant=None)}"}
            )
            assert (nobody.status_code, nobody.json()["type"]) == (
                403,
                "urn:livedex:problem:tenant-required",
            )
            assert (
                await http.get(
                    "/v1/documents",
                    headers={"Authorization": f"Bearer {signed_token(scope='openid')}"},
                )
            ).status_code == 403


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\n\r\n",
        ok(b"[]"),
        ok(b"{"),
        ok(b" " * 2_000_000 + KEYS),
        b"no HTTP",
    ],
    ids=["error", "redirect", "no set", "no JSON", "too much", "no HTTP"],
)
async def test_what_is_no_key_set_is_an_outage(answer: bytes) -> None:
    async with publishing(answer) as url, open_jwks(url) as keys:
        with pytest.raises(OutageError):
            await keys.key("a", "RS256")


async def test_an_issuer_that_is_away_is_told_as_such(database: Database, owner_url: str) -> None:
    url = "http://127.0.0.1:1/keys"
    async with open_jwks(url) as keys:
        tokens = JwtVerifier(keys, JwtSettings(jwks_url=url, issuer=ISSUER, audience=AUDIENCE))
        async with (
            authenticated_api(database, owner_url, tokens=tokens) as app,
            asgi_client(app) as http,
        ):
            answer = await http.get(
                "/v1/documents", headers={"Authorization": f"Bearer {signed_token()}"}
            )
            assert (answer.status_code, "token issuer" in answer.json()["detail"]) == (503, True)
            assert answer.headers["retry-after"]
