"""Who may come in where: by the address, the settings and the keys that were made. What decides is
said aloud at the start.

| address | keys | without a credential |
|---|---|---|
| of loopback | none was ever made | the tenant `default` |
| any other | none was ever made | does not start; with `--trust-network` the tenant `default` |
| any | one was made, even if it is revoked, expired or deleted | refused, from that moment on, in
running processes too |

An issuer of tokens (`LIVEDEX_JWT_JWKS_URL`) counts as a key. A credential that is shown is checked
everywhere: a good one is honoured, any other is refused. Requests without a credential are answered
only if they name an allowed host, no proxy forwarded them, and no page of another site sent them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from livedex.app.wiring import AppContext
from livedex.pipeline.access.anonymous_requests import AnonymousRequestPolicy
from livedex.pipeline.access.api_key_cache import open_api_key_cache
from livedex.pipeline.access.authenticator import CredentialAuthenticator
from livedex.pipeline.access.concurrency_limiter import open_concurrency_limiter
from livedex.pipeline.access.credential_limiter import CredentialLimiter
from livedex.pipeline.access.jwks import open_jwks
from livedex.pipeline.access.jwt_verifier import JwtVerifier
from livedex.pipeline.access.rate_limiter import RateLimiter
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.authentication import Authenticator, RequestLimiter
from livedex.pipeline.http.host_names import is_loopback, parse_host_names, parse_origins
from livedex.pipeline.model import DEFAULT_TENANT
from livedex.pipeline.settings.jwt import JwtSettings
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.rate_limit_store import RateLimitStore


@dataclass(frozen=True, slots=True)
class AuthenticationSetup:
    """How requests are let in.

    Attributes:
        told: what to say of it at the start.
        hosts: that requests may name.
    """

    tenancy: Authenticator
    limits: RequestLimiter
    told: str
    hosts: AllowedHosts


def missing_keys_error(host: str) -> ConfigError:
    """The refusal of an address that others can reach."""
    return ConfigError(
        f"{host} can be reached by others, and without API keys anybody could read "
        "everything: make one with `livedex keys create`, "
        "or use --host 127.0.0.1"
    )


@asynccontextmanager
async def open_authentication(
    s: AppContext, host: str, *, trust_network: bool = False
) -> AsyncIterator[AuthenticationSetup]:
    """Decide who may come in at an address, and check credentials for as long as the block lasts.

    Args:
        s: the context of the process.
        host: for the message.
        trust_network: an address that others can reach may do without keys.

    Raises:
        ConfigError: others could reach it, and there are no keys.
    """
    keys, hosts = (
        ApiKeyStore(s.database),
        AllowedHosts(parse_host_names(s.settings.allowed_hosts), bound=host),
    )
    needed = await _needed(keys, s.settings, host, trust_network=trust_network)
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(open_api_key_cache(keys, s.url))
        limits, tokens = await _limits(stack, s), await _tokens(stack, s.settings.jwt)
        if needed:
            told = "every request needs an API key" + (
                " or a token of the issuer" if tokens else ""
            )
            yield AuthenticationSetup(
                CredentialAuthenticator(ring, tokens=tokens), limits, told, hosts
            )
        else:
            told = (
                f"one tenant, `{DEFAULT_TENANT}`; no key is asked for on this address until one "
                "is made"
            )
            keyless = AnonymousRequestPolicy(
                hosts,
                origins=parse_origins(s.settings.cors_origins),
                may_be_forwarded=trust_network and not is_loopback(host) and hosts.is_set,
            )
            yield AuthenticationSetup(
                CredentialAuthenticator(ring, DEFAULT_TENANT, keyless=keyless, tokens=tokens),
                limits,
                told,
                hosts,
            )


async def _tokens(stack: AsyncExitStack, settings: JwtSettings) -> JwtVerifier | None:
    """Whose tokens are honoured, as the settings have it."""
    if settings.jwks_url is None:
        return None
    return JwtVerifier(await stack.enter_async_context(open_jwks(settings.jwks_url)), settings)


async def _limits(stack: AsyncExitStack, s: AppContext) -> RequestLimiter:
    """What each credential may ask, as the settings have it."""
    shared, settings = RateLimitStore(s.database), s.settings
    rate = (
        RateLimiter(shared, settings.rate_limit_per_minute)
        if settings.rate_limit_per_minute
        else None
    )
    concurrency = None
    if settings.concurrency_limit:
        concurrency = await stack.enter_async_context(
            open_concurrency_limiter(shared, settings.concurrency_limit)
        )
    return CredentialLimiter(rate, concurrency)


async def _needed(keys: ApiKeyStore, settings: Settings, host: str, *, trust_network: bool) -> bool:
    """Whether a request needs a credential from the start."""
    await keys.record_earlier_keys()
    if settings.jwt.jwks_url is not None or await keys.ever_made():
        return True
    if not is_loopback(host) and not trust_network:
        raise missing_keys_error(host)
    return False
