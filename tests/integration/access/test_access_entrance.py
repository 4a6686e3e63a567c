"""Who may come in where, as the program decides it at its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from pipeline.cli.entrance import open_entrance
from pipeline.cli.wiring import Surroundings, open_surroundings
from pipeline.errors import ConfigError, TenantRequiredError
from pipeline.settings import Settings
from pipeline.store.database import Database
from pipeline.store.keys import ApiKeys

HERE, ELSEWHERE = "127.0.0.1", "0.0.0.0"
OPEN, NEEDED, REFUSED = "open", "needed", "refused"


@pytest.fixture
async def surroundings(owner_url: str, tmp_path: Path) -> Any:
    async with open_surroundings(Settings(database_url=SecretStr(owner_url)), tmp_path) as s:
        yield s


async def way(s: Surroundings, host: str, **more: Any) -> str:
    try:
        async with open_entrance(s, host, **more) as entrance:
            try:
                named = f"[{host}]" if ":" in host else host
                assert (await entrance.tenancy.caller_of(Headers({"host": named}))).tenant_id == "default"
            except TenantRequiredError:
                return NEEDED if "needs an API key" in entrance.told else entrance.told
            return OPEN if "no key is asked for" in entrance.told else entrance.told
    except ConfigError as exc:
        return REFUSED if "API keys" in str(exc) and "\n" not in str(exc) else str(exc)


@pytest.mark.parametrize(
    ("host", "alone", "trust", "scoped", "without", "with_some"),
    [
        (HERE, True, False, True, OPEN, OPEN),
        ("localhost", True, False, True, OPEN, OPEN),
        ("::1", True, False, True, OPEN, OPEN),
        (HERE, False, False, True, OPEN, NEEDED),
        (HERE, False, True, True, OPEN, NEEDED),
        (HERE, False, False, False, OPEN, OPEN),
        (ELSEWHERE, True, False, True, REFUSED, NEEDED),
        (ELSEWHERE, True, False, False, REFUSED, NEEDED),
        (ELSEWHERE, False, False, True, REFUSED, NEEDED),
        ("10.0.0.1", False, False, False, REFUSED, NEEDED),
        ("example.org", False, False, True, REFUSED, NEEDED),
        ("::", False, False, True, REFUSED, NEEDED),
        (ELSEWHERE, False, True, True, OPEN, NEEDED),
        (ELSEWHERE, False, True, False, OPEN, OPEN),
    ],
)
async def test_the_address_the_keys_and_the_settings_decide(
    surroundings: Surroundings, new_key: Callable[..., Any], host: str, alone: bool, trust: bool, scoped: bool, without: str, with_some: str
) -> None:
    s = replace(surroundings, settings=surroundings.settings.model_copy(update={"tenant_scoped": scoped}))
    assert await way(s, host, alone=alone, trust_network=trust) == without
    await new_key("acme")
    assert await way(s, host, alone=alone, trust_network=trust) == with_some


async def test_keys_that_open_nothing_any_more_do_not_count(
    surroundings: Surroundings, database: Database, new_key: Callable[..., Any]
) -> None:
    await ApiKeys(database).revoke((await new_key("acme")).key_id)
    assert await way(surroundings, ELSEWHERE, alone=True) == REFUSED


async def test_where_no_key_is_asked_for_a_wrong_one_is_refused_all_the_same(
    surroundings: Surroundings, new_key: Callable[..., Any]
) -> None:
    key = await new_key("acme")
    async with open_entrance(surroundings, HERE, alone=True) as entrance:
        with pytest.raises(HTTPException) as refused:
            await entrance.tenancy.caller_of(Headers({"x-api-key": "wrong"}))
        assert refused.value.status_code == 401
        caller = await entrance.tenancy.caller_of(Headers({"x-api-key": key.key}))
        assert (caller.tenant_id, caller.scopes) == ("acme", {"search"})
