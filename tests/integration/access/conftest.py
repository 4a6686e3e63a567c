"""Documents, and keys that open them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from livedex.pipeline.access.key_format import GeneratedKey, generate_key
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.database import Database


@pytest.fixture
def new_key(database: Database) -> Callable[..., Any]:
    """Makes a key of a tenant."""

    async def make(tenant: str, *scopes: str, days: float | None = None) -> GeneratedKey:
        made = generate_key()
        await ApiKeyStore(database).create(
            TenantId(tenant), made.key_id, "test", made.sha256, scopes or ("search",), days
        )
        return made

    return make
