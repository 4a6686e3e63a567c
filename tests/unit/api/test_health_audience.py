"""Reasons are told to administrators, and to everybody where no credential is needed; others learn
names alone, and nobody is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from livedex.pipeline.access.anonymous_requests import AnonymousRequestPolicy
from livedex.pipeline.access.api_key_cache import ApiKeyCache
from livedex.pipeline.access.authenticator import CredentialAuthenticator
from livedex.pipeline.errors import OutageError, TenantRequiredError
from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.authentication import Caller
from livedex.pipeline.model import DEFAULT_TENANT, TenantId

SECRET = "/srv/acme/secret at 10.0.0.7"
DOWN = {
    "embedder": SECRET,
    "source:acme": SECRET,
    "blobs:s3.acme.example": SECRET,
    "subscriber:acme": SECRET,
}


@dataclass
class Keyed:
    """Callers by their keys; without a key nobody is let in, and while `error` is set nobody can
    be told.
    """

    error: Exception | None = None
    open_before: bool = False
    callers: dict[str, Caller] = field(
        default_factory=lambda: {
            "boss": Caller(TenantId("acme"), frozenset({"admin"})),
            "reader": Caller(TenantId("acme"), frozenset({"search", "documents:all"})),
        }
    )

    async def caller_of(self, headers: Headers) -> Caller:
        key = headers.get("x-api-key")
        if self.error is not None:
            raise self.error
        if key is None:
            raise TenantRequiredError("send a key")
        if key not in self.callers:
            raise HTTPException(401, "unknown")
        return self.callers[key]

    def was_open_to(self, headers: Headers) -> bool:
        return self.open_before


@pytest.fixture
def tenancy(app) -> Keyed:
    made = Keyed()
    app.state.services = replace(app.state.services, tenancy=made, reads=False)
    return made


@pytest.mark.parametrize("key", [None, "reader", "wrong", ""])
async def test_whoever_is_no_administrator_is_told_names_alone(app, http, operations, tenancy, key):
    operations.down = DOWN | {"database": SECRET}
    app.state.services.liveness.watch(lambda: SECRET, "chunk")
    headers = {} if key is None else {"X-API-Key": key}
    ready = await http.get("/readyz", headers=headers)
    assert ready.status_code == 503 and ready.json() == {
        "status": "unready",
        "reasons": ["database: unavailable"],
        "degraded": {
            "embedder": "unavailable",
            "blobs": "unavailable",
            "sources": "unavailable",
            "subscribers": "unavailable",
        },
    }
    alive = await http.get("/healthz", headers=headers)
    assert (alive.status_code, alive.json()) == (503, {"status": "stalled", "reasons": ["chunk"]})
    for answer in (ready, alive):
        assert (
            "acme" not in answer.text
            and "10.0.0.7" not in answer.text
            and "www-authenticate" not in answer.headers
        )


async def test_an_administrator_is_told_why(app, http, operations, tenancy):
    operations.down = DOWN | {"database": SECRET}
    app.state.services.liveness.watch(lambda: SECRET, "chunk")
    ready = (await http.get("/readyz", headers={"X-API-Key": "boss"})).json()
    assert ready["reasons"] == [f"database: {SECRET}"] and ready["degraded"]["embedder"] == SECRET
    assert (await http.get("/healthz", headers={"X-API-Key": "boss"})).json()["reasons"] == [SECRET]


@pytest.mark.parametrize("open_before", [True, False])
async def test_while_keys_cannot_be_looked_up_it_is_as_before(
    http, operations, tenancy, open_before
):
    operations.error = OutageError("database", "its disk is full")
    tenancy.error, tenancy.open_before = operations.error, open_before
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (
        503,
        ["database: " + ("does not answer" if open_before else "unavailable")],
    )


class Made:
    """Whether keys were made; `error` is raised to who asks."""

    def __init__(self) -> None:
        self.any, self.error = False, None

    async def ever_made(self) -> bool:
        if self.error is not None:
            raise self.error
        return self.any


async def test_the_cached_absence_of_keys_ends_with_the_first_key():
    made, now = Made(), [0.0]
    ring = ApiKeyCache(made, lambda: now[0])
    tenancy = CredentialAuthenticator(
        ring, DEFAULT_TENANT, keyless=AnonymousRequestPolicy(AllowedHosts(bound="127.0.0.1"))
    )
    here, elsewhere = Headers({"host": "localhost:8700"}), Headers({"host": "evil.example"})
    assert not tenancy.was_open_to(here)
    await tenancy.caller_of(here)
    made.error, now[0] = OutageError("database", "gone"), 100.0
    with pytest.raises(OutageError):
        await tenancy.caller_of(here)
    assert tenancy.was_open_to(here) and not tenancy.was_open_to(elsewhere)
    assert not tenancy.was_open_to(Headers({"host": "localhost", "x-api-key": "ldx_1_x"}))
    ring.forget("a-key-was-made")
    assert not tenancy.was_open_to(here)
    made.error, made.any = None, True
    with pytest.raises(TenantRequiredError):
        await tenancy.caller_of(here)
    assert not tenancy.was_open_to(here)
