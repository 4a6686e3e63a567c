"""Whose data a request is about. It follows from the credential alone, never from what is in the request."""

from __future__ import annotations

from typing import Protocol

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from pipeline.model import DEFAULT_TENANT, TenantId


class Tenancy(Protocol):
    """Resolves the tenant of a request."""

    async def tenant_of(self, headers: Headers) -> TenantId:
        """The tenant.

        Raises:
            HTTPException: 401, the key is not known.
            TenantRequiredError: there is no key, and one is needed.
        """
        ...


class OneTenant:
    """A service with one tenant and no keys: nobody needs one, and whoever gives one gives a wrong one."""

    def __init__(self, tenant_id: TenantId = DEFAULT_TENANT) -> None:
        self._tenant_id = tenant_id

    async def tenant_of(self, headers: Headers) -> TenantId:
        """The one tenant; see `Tenancy`."""
        if headers.get("authorization", "").strip() or headers.get("x-api-key", "").strip():
            raise HTTPException(401, "this key is not known: this service has no keys, ask without one", {"WWW-Authenticate": "Bearer"})
        return self._tenant_id
