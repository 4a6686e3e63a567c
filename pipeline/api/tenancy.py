"""Who asks, and whose data a request is about. Both follow from the credential alone, never from what is in the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from pipeline.errors import ForbiddenError
from pipeline.model import DEFAULT_TENANT, TenantId

Scope: TypeAlias = Literal["search", "documents:write", "events:write", "admin"]
SCOPES: frozenset[Scope] = frozenset(get_args(Scope))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        scopes: what the credential allows; `admin` allows everything.
        credential: the id of the key, or the subject of the token, for logs and limits; empty where none is needed.
        principals: on whose behalf it asks; None: the credential may see every document of its tenant.
    """

    tenant_id: TenantId
    scopes: frozenset[Scope] = SCOPES
    credential: str = ""
    principals: frozenset[str] | None = None

    def require(self, scope: Scope) -> None:
        """Go on only with this scope.

        Raises:
            ForbiddenError: the credential does not have it.
        """
        if scope not in self.scopes and "admin" not in self.scopes:
            raise ForbiddenError(f"this credential may not do that: it needs the scope {scope}")


class Tenancy(Protocol):
    """Resolves who asks."""

    async def caller_of(self, headers: Headers) -> Caller:
        """Who asks.

        Raises:
            HTTPException: 401, the credential is not known; 429, it asks too often.
            TenantRequiredError: there is no credential, and one is needed.
        """
        ...


class OneTenant:
    """A service with one tenant and no keys: nobody needs one, and whoever gives one gives a wrong one."""

    def __init__(self, tenant_id: TenantId = DEFAULT_TENANT) -> None:
        self._caller = Caller(tenant_id)

    async def caller_of(self, headers: Headers) -> Caller:
        """Of the one tenant; see `Tenancy`."""
        if headers.get("authorization", "").strip() or headers.get("x-api-key", "").strip():
            raise HTTPException(401, "this key is not known: this service has no keys, ask without one", {"WWW-Authenticate": "Bearer"})
        return self._caller
