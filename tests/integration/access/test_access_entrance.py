"""Who may come in where, as the program decides it at its start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from livedex.app.authentication import AuthenticationSetup, open_authentication
from livedex.app.wiring import AppContext, open_app_context
from livedex.pipeline.errors import ConfigError, TenantRequiredError
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.tenant_store import TenantStore

HERE, ELSEWHERE = "127.0.0.1", "0.0.0.0"
OPEN, NEEDED, REFUSED = "open", "needed", "refused"


@pytest.fixture
async def surroundings(owner_url: str, tmp_path: Path) -> Any:
    async with open_app_context(Settings(database_url=SecretStr(owner_url)), tmp_path) as s:
        yield s


async def way(s: AppContext, host: str, **more: Any) -> str:
    try:
        async with open_authentication(s, host, **more) as entrance:
            try:
                assert (
                    await entrance.tenancy.caller_of(Headers({"host": "localhost"}))
                ).tenant_id == "default"
            except TenantRequiredError:
                return NEEDED if "needs an API key" in entrance.told else entrance.told
            return OPEN if "no key is asked for" in entrance.told else entrance.told
    except ConfigError as exc:
        return REFUSED if "API keys" in str(exc) and "\n" not in str(exc) else str(exc)


@pytest.mark.parametrize(
    ("host", "trust", "scoped", "without"),
    [
        (HERE, False, True, OPEN),
        ("localhost", False, True, OPEN),
        ("::1", False, True, OPEN),
        (HERE, True, True, OPEN),
        (HERE, False, False, OPEN),
        (ELSEWHERE, False, True, REFUSED),
        (ELSEWHERE, False, False, REFUSED),
        ("10.0.0.1", False, False, REFUSED),
        ("example.org", False, True, REFUSED),
        ("::", False, True, REFUSED),
        (ELSEWHERE, True, True, OPEN),
        (ELSEWHERE, True, False, OPEN),
    ],
)
async def test_the_address_and_the_settings_decide_until_a_key_is_made(
    surroundings: AppContext,
    new_key: Callable[..., Any],
    host: str,
    trust: bool,
    scoped: bool,
    without: str,
) -> None:
    s = replace(
        surroundings, settings=surroundings.settings.model_copy(update={"tenant_scoped": scoped})
    )
    assert await way(s, host, trust_network=trust) == without
    await new_key("acme")
    assert await way(s, host, trust_network=trust) == NEEDED


@pytest.mark.parametrize("host", [HERE, ELSEWHERE])
async def test_from_the_first_key_on_every_request_needs_one_in_a_running_process_too(
    surroundings: AppContext, database: Database, new_key: Callable[..., Any], host: str
) -> None:
    async with open_authentication(surroundings, host, trust_network=True) as entrance:
        assert await entrance.tenancy.caller_of(Headers({"host": "localhost"}))
        key = await new_key("acme")
        for _ in range(3):
            await is_needed(entrance)
            await ApiKeyStore(database).revoke(key.key_id)
        await TenantStore(database, PostgresBlobStore(database)).delete(TenantId("acme"))
        await is_needed(entrance)
    assert await way(surroundings, host, trust_network=True) == NEEDED


async def is_needed(entrance: AuthenticationSetup) -> None:
    """A key is asked for, as soon as the process was told."""
    for _ in range(100):
        try:
            await entrance.tenancy.caller_of(Headers({"host": "localhost"}))
        except TenantRequiredError:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a request without a key was answered a second after one was made")


async def test_a_key_of_an_older_version_that_was_revoked_counts_as_well(
    surroundings: AppContext,
    database: Database,
    owner: asyncpg.Connection,
    new_key: Callable[..., Any],
) -> None:
    await ApiKeyStore(database).revoke((await new_key("acme")).key_id)
    await owner.execute("delete from keys_made")
    assert await way(surroundings, HERE) == NEEDED


async def test_where_no_key_is_asked_for_a_wrong_one_is_refused_all_the_same(
    surroundings: AppContext, new_key: Callable[..., Any]
) -> None:
    key = await new_key("acme")
    async with open_authentication(surroundings, HERE) as entrance:
        with pytest.raises(HTTPException) as refused:
            await entrance.tenancy.caller_of(Headers({"x-api-key": "wrong"}))
        assert refused.value.status_code == 401
        caller = await entrance.tenancy.caller_of(Headers({"x-api-key": key.key}))
        assert (caller.tenant_id, caller.scopes) == ("acme", {"search"})
