"""Who may come in where: decided once at the start, by the address, the settings and the keys that there are, and said aloud.

| address | keys | without a credential |
|---|---|---|
| of loopback, `livedex up` | any | the tenant `default` |
| of loopback, `livedex run` | none | the tenant `default` |
| of loopback, `livedex run` | some | refused, or `default` with `LIVEDEX_TENANT_SCOPED=false` |
| any other | none | does not start; with `--trust-network` the tenant `default` |
| any other | some | refused; `default` with both `LIVEDEX_TENANT_SCOPED=false` and `--trust-network` |

A credential that is shown is checked everywhere: a good one is honoured, any other is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pipeline.access.concurrency import open_concurrency
from pipeline.access.limits import CredentialLimits
from pipeline.access.rate import RateLimiter
from pipeline.access.ring import open_ring
from pipeline.access.tenancy import KeyTenancy, is_loopback
from pipeline.api.limits import Limits
from pipeline.api.tenancy import Tenancy
from pipeline.cli.wiring import Surroundings
from pipeline.errors import ConfigError
from pipeline.model import DEFAULT_TENANT
from pipeline.store.keys import ApiKeys
from pipeline.store.limits import SharedLimits


@dataclass(frozen=True, slots=True)
class Entrance:
    """How requests are let in.

    Attributes:
        told: what to say of it at the start.
    """

    tenancy: Tenancy
    limits: Limits
    told: str


def refuse_without_keys(host: str) -> ConfigError:
    """The refusal of an address that others can reach."""
    return ConfigError(
        f"{host} can be reached by others, and without API keys anybody could read everything: make one with `livedex keys create`, "
        "or use --host 127.0.0.1"
    )


@asynccontextmanager
async def open_entrance(s: Surroundings, host: str, *, alone: bool, trust_network: bool = False) -> AsyncIterator[Entrance]:
    """Decide who may come in at an address, and check credentials for as long as the block lasts.

    Args:
        alone: as `livedex up`, which asks for no key on loopback.
        trust_network: an address that others can reach may do without keys.

    Raises:
        ConfigError: others could reach it, and there are no keys.
    """
    keys = ApiKeys(s.database)
    needed = await _needed(keys, host, alone, trust_network, s.settings.tenant_scoped)
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(open_ring(keys, s.url))
        limits = await _limits(stack, s)
        if needed:
            yield Entrance(KeyTenancy(ring), limits, "every request needs an API key")
        else:
            told = f"one tenant, `{DEFAULT_TENANT}`; no key is asked for on this address"
            yield Entrance(KeyTenancy(ring, DEFAULT_TENANT, here_only=is_loopback(host)), limits, told)


async def _limits(stack: AsyncExitStack, s: Surroundings) -> Limits:
    """What each credential may ask, as the settings have it."""
    shared, settings = SharedLimits(s.database), s.settings
    rate = RateLimiter(shared, settings.rate_limit_per_minute) if settings.rate_limit_per_minute else None
    concurrency = None
    if settings.concurrency_limit:
        concurrency = await stack.enter_async_context(open_concurrency(shared, settings.concurrency_limit))
    return CredentialLimits(rate, concurrency)


async def _needed(keys: ApiKeys, host: str, alone: bool, trust_network: bool, tenant_scoped: bool) -> bool:
    """Whether a request needs a credential."""
    loopback = is_loopback(host)
    if loopback and (alone or not tenant_scoped):
        return False
    if await keys.exist():
        return loopback or tenant_scoped or not trust_network
    if not loopback and not trust_network:
        raise refuse_without_keys(host)
    return False
