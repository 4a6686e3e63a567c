"""Which tokens are honoured, and what of them counts."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

import httpx
import pytest

from livedex.pipeline.access.jwks import JwksCache
from livedex.pipeline.access.jwt_verifier import JwtVerifier
from livedex.pipeline.errors import OutageError, TenantRequiredError
from livedex.pipeline.settings.jwt import JwtSettings
from tests.support.http.token_issuer import AUDIENCE, ISSUER, Issuer, public_jwk, signed_token


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def tenancy(issuer: Issuer, clock: Clock, **settings: Any) -> JwtVerifier:
    return JwtVerifier(
        JwksCache(issuer, clock),
        JwtSettings(
            jwks_url="https://issuer.example/keys", issuer=ISSUER, audience=AUDIENCE, **settings
        ),
    )


async def test_a_good_token_opens_the_tenant_that_it_names_for_its_scopes(
    issuer: Issuer, clock: Clock
) -> None:
    caller = await tenancy(issuer, clock).caller_of(
        signed_token(scope="search openid documents:write")
    )
    assert caller is not None
    assert (caller.tenant_id, caller.scopes, caller.principals) == (
        "acme",
        {"search", "documents:write"},
        frozenset(),
    )
    assert caller.credential.startswith("jwt-") and "someone" not in caller.credential


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("RSA", "RS256"),
        ("RSA", "RS512"),
        ("RSA", "PS256"),
        ("P-256", "ES256"),
        ("P-384", "ES384"),
        ("Ed25519", "EdDSA"),
    ],
)
async def test_signatures_by_a_published_key_are_taken(
    issuer: Issuer, clock: Clock, kind: str, algorithm: str
) -> None:
    issuer.keys = [public_jwk(kind, "k")]
    assert (
        await tenancy(issuer, clock).caller_of(signed_token(kind, "k", algorithm=algorithm))
        is not None
    )


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(algorithm: str) -> str:
    """A token that says that it needs no signature."""
    return f"{part({'alg': algorithm, 'kid': 'a'})}.{signed_token().split('.')[1]}."


def signed_with_the_public_key() -> str:
    """The classic: the public key taken for a shared secret."""
    body = f"{part({'alg': 'HS256', 'kid': 'a'})}.{signed_token().split('.')[1]}"
    public_key = json.dumps(public_jwk("RSA", "a")).encode()
    signature = base64.urlsafe_b64encode(hmac.digest(public_key, body.encode(), "sha256"))
    return f"{body}.{signature.rstrip(b'=').decode()}"


def changed(good: str) -> str:
    head, body, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    return f"{head}.{part(claims | {'tenant': 'other'})}.{signature}"


BAD = {
    "another signature": lambda: signed_token(name="other"),
    "an unknown key": lambda: signed_token(kid="b"),
    "another issuer": lambda: signed_token(iss="https://other.example/"),
    "another service": lambda: signed_token(aud="other"),
    "no issuer": lambda: signed_token(iss=None),
    "no audience": lambda: signed_token(aud=None),
    "no end": lambda: signed_token(exp=None),
    "expired": lambda: signed_token(exp=int(time.time()) - 31),
    "not valid yet": lambda: signed_token(nbf=int(time.time()) + 60),
    "no algorithm": lambda: unsigned("none"),
    "no algorithm, in capitals": lambda: unsigned("None"),
    "a shared secret": signed_with_the_public_key,
    "other claims": lambda: changed(signed_token()),
    "an algorithm that the key is not for": lambda: signed_token("P-256", "a", algorithm="ES256"),
    "a key of its own": lambda: signed_token(
        name="other", header={"jwk": public_jwk("RSA", "a", "other")}
    ),
    "a critical extension": lambda: signed_token(header={"crit": ["b64"], "b64": False}),
    "nonsense": lambda: "a.b.c",
    "nothing": lambda: "..",
    "a list": lambda: f"{part([])}.{part({})}.x",
    "no object inside": lambda: f"{part({'alg': 'RS256', 'kid': 'a'})}.{part('x')}.AAAA",
    "a key id that is none": lambda: f"{part({'alg': 'RS256', 'kid': {}})}.{part({})}.AAAA",
    "no ASCII": lambda: signed_token()[:-1] + "\u00e9",
    "too long": lambda: signed_token(more="x" * 20_000),
    "a time that is none": lambda: signed_token(exp="soon"),
    "an endless time": lambda: signed_token(exp=float("inf")),
}


@pytest.mark.parametrize("made", BAD.values(), ids=BAD)
async def test_any_other_token_is_not_honoured(issuer: Issuer, clock: Clock, made: Any) -> None:
    assert await tenancy(issuer, clock).caller_of(made()) is None


async def test_clocks_may_differ_by_half_a_minute(issuer: Issuer, clock: Clock) -> None:
    now = int(time.time())
    assert (
        await tenancy(issuer, clock).caller_of(signed_token(exp=now - 20, nbf=now + 20)) is not None
    )


@pytest.mark.parametrize(
    "keys",
    [
        [public_jwk("short", "a")],
        [public_jwk("RSA", "a", use="enc")],
        [public_jwk("RSA", "a", key_ops=["sign"])],
        [public_jwk("RSA", "a", alg="RS512")],
        [{"kty": "oct", "k": "AAAA", "kid": "a"}],
        [{"kty": "RSA", "kid": "a"}],
        [{"kty": "RSA", "kid": "a", "n": 1, "e": []}],
        ["x"],
        [],
    ],
)
@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_a_key_that_is_not_for_this_is_not_used(
    issuer: Issuer, clock: Clock, keys: list[Any]
) -> None:
    issuer.keys = keys
    made = (
        signed_token("short", "a")
        if keys and keys[0] == public_jwk("short", "a")
        else signed_token()
    )
    assert await tenancy(issuer, clock).caller_of(made) is None


async def test_a_token_without_a_key_id_is_held_against_the_only_key(
    issuer: Issuer, clock: Clock
) -> None:
    issuer.keys = [public_jwk("RSA", None)]
    assert await tenancy(issuer, clock).caller_of(signed_token(kid=None)) is not None
    issuer.keys = [public_jwk("RSA", "a"), public_jwk("P-256", "b")]
    assert await tenancy(issuer, clock).caller_of(signed_token(kid=None)) is None


@pytest.mark.parametrize("tenant", [None, "", " acme", 7, ["acme"], "a\x00b", "x" * 201])
async def test_one_that_names_no_tenant_is_told_so(
    issuer: Issuer, clock: Clock, tenant: Any
) -> None:
    with pytest.raises(TenantRequiredError):
        await tenancy(issuer, clock).caller_of(signed_token(tenant=tenant))


async def test_claims_are_found_by_the_names_of_the_settings(issuer: Issuer, clock: Clock) -> None:
    asked = tenancy(
        issuer,
        clock,
        tenant_claim="https://x.example/tenant",
        scopes_claim="app.roles",
        principals_claim="groups",
    )
    more = {"https://x.example/tenant": "t", "app": {"roles": ["search", "admin", 7]}}
    caller = await asked.caller_of(
        signed_token(tenant=None, scope=None, groups=["a b", "c"], **more)
    )
    assert caller is not None
    assert (caller.tenant_id, caller.scopes, caller.principals) == (
        "t",
        {"search", "admin"},
        {"a b", "c"},
    )
    bare = await asked.caller_of(signed_token(tenant=None, scope=None, **{**more, "app": "x"}))
    assert bare is not None and (bare.scopes, bare.principals) == (frozenset(), frozenset())


async def test_keys_are_fetched_once_and_again_when_one_is_not_known_but_seldom(
    issuer: Issuer, clock: Clock
) -> None:
    asked = tenancy(issuer, clock)
    for _ in range(10):
        assert await asked.caller_of(signed_token()) is not None
    assert issuer.fetched == 1
    issuer.keys = [public_jwk("RSA", "b")]
    for _ in range(10):
        assert await asked.caller_of(signed_token(kid="b")) is None
    assert issuer.fetched == 1
    clock.now += 30
    assert await asked.caller_of(signed_token(kid="b")) is not None
    for n in range(10):
        await asked.caller_of(signed_token(kid=f"made up {n}"))
    assert issuer.fetched == 2
    assert await asked.caller_of(signed_token(kid="a")) is None


async def test_while_the_issuer_is_away_its_known_keys_count_for_a_day(
    issuer: Issuer, clock: Clock
) -> None:
    asked = tenancy(issuer, clock)
    assert await asked.caller_of(signed_token()) is not None
    issuer.error = httpx.ConnectError("away")
    clock.now += 86_000
    assert await asked.caller_of(signed_token()) is not None
    clock.now += 1_000
    with pytest.raises(OutageError, match="keys"):
        await asked.caller_of(signed_token())
    issuer.error = None
    clock.now += 2
    assert await asked.caller_of(signed_token()) is not None


async def test_an_issuer_that_was_never_reached_is_an_outage_and_not_asked_in_a_loop(
    issuer: Issuer, clock: Clock
) -> None:
    asked = tenancy(issuer, clock)
    issuer.error = ValueError("not a key set")
    for _ in range(5):
        with pytest.raises(OutageError):
            await asked.caller_of(signed_token())
    assert issuer.fetched == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"jwks_url": "http://issuer.example/keys", "issuer": "i", "audience": "a"},
        {"jwks_url": "https://issuer.example/keys"},
        {"jwks_url": "https://issuer.example/keys", "issuer": "i"},
        {"issuer": "i", "audience": "a"},
        {"jwks_url": "file:///etc/keys", "issuer": "i", "audience": "a"},
    ],
)
def test_settings_that_would_honour_anybody_s_tokens_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"LIVEDEX_JWT|https"):
        JwtSettings(**settings)
