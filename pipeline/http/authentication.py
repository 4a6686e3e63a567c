"""Who asks, and whose data a request is about.

Both follow from the credential alone, never from what is in the request.
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
    """Who asks.

    Attributes:
        scopes: what the credential allows; `admin` allows everything.
        credential: the id of the key, or the subject of the token, for logs and limits; empty where
            none is needed.
        principals: on whose behalf it asks, said by the credential itself; None: it says nothing,
            as a key.
    """

    tenant_id: TenantId
    scopes: frozenset[Scope] = SCOPES
    credential: str = ""
    principals: frozenset[str] | None = None

    @property
    def is_anonymous(self) -> bool:
        """Return whether it asks without a credential, where none is needed."""
        return not self.credential

    def require(self, *scopes: Scope) -> None:
        """Go on only with one of these scopes.

        Raises:
            ForbiddenError: the credential has none of them.
        """
        if not any(map(self.may, scopes)):
            raise ForbiddenError(
                f"this credential may not do that: it needs the scope {' or '.join(scopes)}"
            )

    def may(self, scope: Scope) -> bool:
        """Whether it has a scope."""
        return scope in self.scopes or "admin" in self.scopes

    def reader(self, principals: Collection[str] | None = None) -> Reader:
        """For whom it reads.

        Args:
            principals: on whose behalf the request says that it asks; None: it does not say.

        Raises:
            ForbiddenError: it says so, and the credential may not.
        """
        if principals is not None:
            if self.principals is not None:
                raise ForbiddenError(
                    "a token says itself on whose behalf it asks: leave `principals` out"
                )
            self.require("act_as")
            return Reader(self.tenant_id, frozenset(principals))
        return Reader(
            self.tenant_id, None if self.may("documents:all") else self.principals or frozenset()
        )

    def status_reader(self, reader: Reader) -> Reader:
        """For whom it asks what became of a change: whoever may write any document is told of
        each; others of what they may read.
        """
        return (
            Reader(self.tenant_id)
            if self.may("documents:write") or self.may("events:write")
            else reader
        )


class Authenticator(Protocol):
    """Resolves who asks."""

    async def caller_of(self, headers: Headers) -> Caller:
        """Who asks.

        Raises:
            HTTPException: 401, the credential is not known; 429, it asks too often.
            TenantRequiredError: there is no credential, and one is needed.
        """
        ...

    def was_open_to(self, headers: Headers) -> bool:
        """Return whether a request without a credential, as these headers say, was answered when
        that was last found out; nothing is asked.
        """
        ...


class SingleTenantAuthenticator:
    """A service with one tenant and no keys: nobody needs one, and whoever gives one gives a wrong
    one.
    """

    def __init__(self, tenant_id: TenantId = DEFAULT_TENANT) -> None:
        self._caller = Caller(tenant_id)

    async def caller_of(self, headers: Headers) -> Caller:
        """Of the one tenant; see `Tenancy`.

        Raises:
            HTTPException: 429: the caller asks too often.
        """
        if headers.get("authorization", "").strip() or headers.get("x-api-key", "").strip():
            raise HTTPException(
                401,
                "this key is not known: this service has no keys, ask without one",
                {"WWW-Authenticate": "Bearer"},
            )
        return self._caller

    def was_open_to(self, headers: Headers) -> bool:
        """Always; see `Tenancy`."""
        return True


class _Services(Protocol):
    """What `app.state.services` has for this."""

    @property
    def tenancy(self) -> Authenticator: ...

    @property
    def limits(self) -> RequestLimiter: ...

    @property
    def shares(self) -> TenantShares: ...


def require_scope(*scopes: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """Who asks, having one of these scopes, and being let in; the edge lets go of it at the end of
    the request.
    """

    async def caller(request: Request) -> Caller:
        if hasattr(request.state, "caller"):  # before the body was read
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
    """Return what `needs` made for a route, so that it can be asked before the body is read; None
    for a route that needs no caller.
    """
    for each in route.dependencies:
        if each.call in _AUTHENTICATION_DEPENDENCIES:
            return cast(Callable[[Request], Awaitable[Caller]], each.call)
        if (found := authentication_of(each)) is not None:
            return found
    return None


_AUTHENTICATION_DEPENDENCIES: set[Any] = set()


_TURN_S = 10.0  # that a request waits for its tenant's share


class Admission(Protocol):
    """A request that was let in.

    Attributes:
        headers: for the answer.
    """

    @property
    def headers(self) -> Mapping[str, str]: ...

    def release(self) -> None:
        """The request has ended."""
        ...


class RequestLimiter(Protocol):
    """Decides whether a caller may ask now."""

    async def admit(self, caller: Caller) -> Admission | None:
        """Let a request in; None where nothing is limited.

        Raises:
            HTTPException: 429, too many, with the time after which it is worth asking again.
            OutageError: what is counted is not to be had.
        """
        ...


class UnlimitedRequests:
    """Nothing is limited."""

    async def admit(self, caller: Caller) -> Admission | None:
        """Let everything in."""
        return None
