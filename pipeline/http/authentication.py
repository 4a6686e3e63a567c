"""Callers, their scopes, and FastAPI dependencies for authentication.

Only the credential determines caller and tenant, never other parts of a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

from fastapi import Request
from fastapi.dependencies.models import Dependant
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from livedex.pipeline.errors import ForbiddenError
from livedex.pipeline.http.unknown_parameters import check_query_parameters
from livedex.pipeline.model import DEFAULT_TENANT, Reader, TenantId
from livedex.pipeline.runtime.request_context import current_credential
from livedex.pipeline.runtime.tenant_shares import TenantShares

Scope: TypeAlias = Literal[
    "search", "ask", "act_as", "documents:all", "documents:write", "events:write", "admin"
]
SCOPES: frozenset[Scope] = frozenset(get_args(Scope))


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Attributes:
        tenant_id: of the credential.
        scopes: of the credential; `admin` includes all.
        credential: id of the API key, or of the token's subject, for logs and limits; empty if no
            credential is needed.
        principals: in the token; None: the credential names none, such as an API key.
    """

    tenant_id: TenantId
    scopes: frozenset[Scope] = SCOPES
    credential: str = ""
    principals: frozenset[str] | None = None

    @property
    def is_anonymous(self) -> bool:
        """Return whether the request has no credential, because none is needed."""
        return not self.credential

    def require(self, *scopes: Scope) -> None:
        """Check that the caller has one of these scopes.

        Args:
            *scopes: at least one.

        Raises:
            ForbiddenError: the credential has none of them.
        """
        if not any(map(self.may, scopes)):
            raise ForbiddenError(f"this credential lacks a scope: it needs {' or '.join(scopes)}")

    def may(self, scope: Scope) -> bool:
        """Return whether the caller has a scope."""
        return scope in self.scopes or "admin" in self.scopes

    def reader(self, principals: Collection[str] | None = None) -> Reader:
        """Return the reader for a request of this caller.

        Args:
            principals: in the request; None: the request names none.

        Raises:
            ForbiddenError: the request names principals, and the credential does not permit it.
        """
        if principals is not None:
            if self.principals is not None:
                raise ForbiddenError(
                    "the token determines the principals: remove `principals` from the request"
                )
            self.require("act_as")
            return Reader(self.tenant_id, frozenset(principals))
        return Reader(
            self.tenant_id, None if self.may("documents:all") else self.principals or frozenset()
        )

    def status_reader(self, reader: Reader) -> Reader:
        """Return the reader for the state of a change: callers that may write all documents see
        every change, others only those of readable documents.
        """
        return (
            Reader(self.tenant_id)
            if self.may("documents:write") or self.may("events:write")
            else reader
        )


class Authenticator(Protocol):
    """Authenticates callers."""

    async def caller_of(self, headers: Headers) -> Caller:
        """Return the caller of a request.

        Args:
            headers: of the request.

        Raises:
            HTTPException: 401, the credential is invalid; 429, too many requests.
            TenantRequiredError: there is no credential, and one is needed.
        """
        ...

    def was_open_to(self, headers: Headers) -> bool:
        """Return whether a request without a credential was last accepted, from cached state only.

        Args:
            headers: of the request.
        """
        ...


class SingleTenantAuthenticator:
    """Authenticator of a service with one tenant and no keys: it needs no credential, and rejects
    any.

    Args:
        tenant_id: of all callers.
    """

    def __init__(self, tenant_id: TenantId = DEFAULT_TENANT) -> None:
        self._caller = Caller(tenant_id)

    async def caller_of(self, headers: Headers) -> Caller:
        """Return a caller of the tenant; see `Authenticator`.

        Args:
            headers: of the request.

        Raises:
            HTTPException: 401, the request has a credential.
        """
        if headers.get("authorization", "").strip() or headers.get("x-api-key", "").strip():
            raise HTTPException(
                401,
                "the API key is invalid: this service has no keys; send requests without one",
                {"WWW-Authenticate": "Bearer"},
            )
        return self._caller

    def was_open_to(self, headers: Headers) -> bool:
        """Return True; see `Authenticator`."""
        return True


class _Services(Protocol):
    """The parts of `app.state.services` that authentication uses."""

    @property
    def tenancy(self) -> Authenticator: ...

    @property
    def limits(self) -> RequestLimiter: ...

    @property
    def shares(self) -> TenantShares: ...


def require_scope(*scopes: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """Return a FastAPI dependency that authenticates and admits a caller with one of these scopes.

    `RequestMiddleware` releases the admission at the end of the request.

    Args:
        *scopes: at least one.
    """

    async def caller(request: Request) -> Caller:
        if hasattr(request.state, "caller"):  # authenticated before the body was read
            known = cast(Caller, request.state.caller)
            known.require(*scopes)
            return known
        services = cast(_Services, request.app.state.services)
        found = await services.tenancy.caller_of(request.headers)
        request.state.admission = await services.limits.admit(found)
        await services.shares.admit(
            found.tenant_id, "read" if "search" in scopes else "write", wait_s=_TURN_S
        )
        found.require(*scopes)
        check_query_parameters(request)
        request.state.caller = found
        current_credential.set(found.credential)
        return found

    _AUTHENTICATION_DEPENDENCIES.add(caller)
    return caller


def authentication_of(route: Dependant) -> Callable[[Request], Awaitable[Caller]] | None:
    """Return the dependency that `require_scope` created for a route, so that it can run before the
    body is read; None: the route needs no caller.
    """
    for each in route.dependencies:
        if each.call in _AUTHENTICATION_DEPENDENCIES:
            return cast(Callable[[Request], Awaitable[Caller]], each.call)
        if (found := authentication_of(each)) is not None:
            return found
    return None


_AUTHENTICATION_DEPENDENCIES: set[Any] = set()


_TURN_S = 10.0  # maximum wait of a request for its tenant's share


class Admission(Protocol):
    """An admitted request.

    Attributes:
        headers: for the response.
    """

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers for the response."""
        ...

    def release(self) -> None:
        """Record the end of the request."""
        ...


class RequestLimiter(Protocol):
    """Limits the requests of callers."""

    async def admit(self, caller: Caller) -> Admission | None:
        """Admit a request; None: nothing is limited.

        Args:
            caller: of the request.

        Raises:
            HTTPException: 429, too many requests, with `Retry-After`.
            OutageError: the counters are unavailable.
        """
        ...


class UnlimitedRequests:
    """Limits nothing."""

    async def admit(self, caller: Caller) -> Admission | None:
        """Admit every request."""
        return None
