"""Who may come in where: by the address, the settings and the keys that were made. What decides is said aloud at the start.

| address | keys | without a credential |
|---|---|---|
| of loopback | none was ever made | the tenant `default` |
| any other | none was ever made | does not start; with `--trust-network` the tenant `default` |
| any | one was made, even if it is revoked, expired or deleted | refused, from that moment on, in running processes too |

An issuer of tokens (`LIVEDEX_JWT_JWKS_URL`) counts as a key. A credential that is shown is checked everywhere: a good one is honoured, any other is refused.
Requests without a credential are answered only if they name an allowed host, no proxy forwarded them, and no page of another site sent them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from livedex.app.wiring import Surroundings
from livedex.pipeline.access.anonymous_requests import KeylessRequests
from livedex.pipeline.access.api_key_cache import open_ring
from livedex.pipeline.access.authenticator import KeyTenancy
from livedex.pipeline.access.concurrency_limiter import open_concurrency
from livedex.pipeline.access.credential_limiter import CredentialLimits
from livedex.pipeline.access.jwks import open_issuer
from livedex.pipeline.access.jwt_verifier import TokenTenancy
from livedex.pipeline.access.rate_limiter import RateLimiter
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.http.allowed_hosts import AllowedHosts
from livedex.pipeline.http.authentication import Limits, Tenancy
from livedex.pipeline.http.host_names import check_host_names, check_origins, is_loopback
from livedex.pipeline.model import DEFAULT_TENANT
from livedex.pipeline.settings.jwt import JwtSettings
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.api_key_store import ApiKeys
from livedex.pipeline.store.rate_limit_store import SharedLimits


@dataclass(frozen=True, slots=True)
class Entrance:
    """How requests are let in.

    Attributes:
        told: what to say of it at the start.
        hosts: that requests may name.
    """

    tenancy: Tenancy
    limits: Limits
    told: str
    hosts: AllowedHosts


def refuse_without_keys(host: str) -> ConfigError:
    """The refusal of an address that others can reach."""
    return ConfigError(
        f"{host} can be reached by others, and without API keys anybody could read everything: make one with `livedex keys create`, "
        "or use --host 127.0.0.1"
    )


@asynccontextmanager
async def open_entrance(s: Surroundings, host: str, *, trust_network: bool = False) -> AsyncIterator[Entrance]:
    """Decide who may come in at an address, and check credentials for as long as the block lasts.

    Args:
        trust_network: an address that others can reach may do without keys.

    Raises:
        ConfigError: others could reach it, and there are no keys.
    """
    keys, hosts = ApiKeys(s.database), AllowedHosts(check_host_names(s.settings.allowed_hosts), bound=host)
    needed = await _needed(keys, s.settings, host, trust_network=trust_network)
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(open_ring(keys, s.url))
        limits, tokens = await _limits(stack, s), await _tokens(stack, s.settings.jwt)
        if needed:
            told = "every request needs an API key" + (" or a token of the issuer" if tokens else "")
            yield Entrance(KeyTenancy(ring, tokens=tokens), limits, told, hosts)
        else:
            told = f"one tenant, `{DEFAULT_TENANT}`; no key is asked for on this address until one is made"
            keyless = KeylessRequests(
                hosts,
                origins=check_origins(s.settings.cors_origins),
                may_be_forwarded=trust_network and not is_loopback(host) and hosts.is_set,
            )
            yield Entrance(KeyTenancy(ring, DEFAULT_TENANT, keyless=keyless, tokens=tokens), limits, told, hosts)


async def _tokens(stack: AsyncExitStack, settings: JwtSettings) -> TokenTenancy | None:
    """Whose tokens are honoured, as the settings have it."""
    if settings.jwks_url is None:
        return None
    return TokenTenancy(await stack.enter_async_context(open_issuer(settings.jwks_url)), settings)


async def _limits(stack: AsyncExitStack, s: Surroundings) -> Limits:
    """What each credential may ask, as the settings have it."""
    shared, settings = SharedLimits(s.database), s.settings
    rate = RateLimiter(shared, settings.rate_limit_per_minute) if settings.rate_limit_per_minute else None
    concurrency = None
    if settings.concurrency_limit:
        concurrency = await stack.enter_async_context(open_concurrency(shared, settings.concurrency_limit))
    return CredentialLimits(rate, concurrency)


async def _needed(keys: ApiKeys, settings: Settings, host: str, *, trust_network: bool) -> bool:
    """Whether a request needs a credential from the start."""
    await keys.note_older()
    if settings.jwt.jwks_url is not None or await keys.ever_made():
        return True
    if not is_loopback(host) and not trust_network:
        raise refuse_without_keys(host)
    return False
