"""Fetches and caches the public keys (JWKS) of a token issuer.

An unknown key id triggers a fetch, but at most one in `_REFRESH_INTERVAL_S`, so that tokens with
invented key ids cannot cause more requests. While the issuer is unavailable, keys stay valid for a
day after they were fetched.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx
import jwt
import orjson

from livedex.pipeline.errors import OutageError
from livedex.pipeline.http.outbound_client import open_http_client

log = logging.getLogger(__name__)

ALGORITHMS: Mapping[str, frozenset[str]] = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "EC": frozenset({"ES256", "ES384", "ES512"}),
    "OKP": frozenset({"EdDSA"}),
}
"""Accepted algorithms by key type, without HMAC: whoever can verify an HMAC can also create one."""

_FRESH_S = 600.0
_REFRESH_INTERVAL_S = 30.0
_REFRESH_INTERVAL_EMPTY_S = 2.0
_MAX_STALE_S = 86_400.0
_TIMEOUT_S = 5.0
_MOST_BYTES = 1_048_576
_MOST_KEYS = 200
_LEAST_RSA_BITS = 2048


class JwksFetcher(Protocol):
    """Fetches the bytes of a key set."""

    async def __call__(self) -> bytes:
        """Return the bytes of the key set.

        Raises:
            httpx.HTTPError: the request failed.
            TimeoutError: the issuer does not answer in time.
            ValueError: the response is too large.
        """
        ...


class JwksCache:
    """The cached keys of one issuer.

    Args:
        fetch: fetches the key set.
        clock: returns monotonic seconds.
    """

    def __init__(self, fetch: JwksFetcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str, Mapping[str, Any]] = {}
        self._fetched = float("-inf")
        self._tried = float("-inf")
        self._turn = asyncio.Lock()

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key of a token.

        Args:
            kid: key id in the token; None: the only key of the issuer.
            algorithm: in the token.

        Returns:
            The key; None: it does not exist, or does not fit the algorithm.

        Raises:
            OutageError: the keys could not be fetched for too long.
        """
        found = self._named(kid)
        now = self._clock()
        if (found is None or now - self._fetched > _FRESH_S) and self._may_try(now):
            async with self._turn:
                if self._may_try(self._clock()):
                    await self._refresh()
            found = self._named(kid)
        if self._clock() - self._fetched > _MAX_STALE_S:
            raise OutageError(
                "token issuer",
                "its keys cannot be fetched",
                retry_after_s=_REFRESH_INTERVAL_EMPTY_S,
            )
        return None if found is None else _for_algorithm(found, algorithm)

    def _named(self, kid: str | None) -> Mapping[str, Any] | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    def _may_try(self, now: float) -> bool:
        pause_s = (
            _REFRESH_INTERVAL_S
            if now - self._fetched <= _MAX_STALE_S
            else _REFRESH_INTERVAL_EMPTY_S
        )
        return now - self._tried >= pause_s

    async def _refresh(self) -> None:
        self._tried = self._clock()
        try:
            keys = parse_jwks(await self._fetch())
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError, ValueError) as exc:
            log.warning("fetching the keys of the token issuer failed: %s", type(exc).__name__)
            return
        if not keys:
            log.warning("the token issuer publishes no usable key")
        self._keys, self._fetched = keys, self._clock()


def parse_jwks(raw: bytes) -> dict[str, Mapping[str, Any]]:
    """Return the signature keys of a key set by id; '' for a key without an id.

    Args:
        raw: JSON of the key set.

    Raises:
        ValueError: it is not a key set.
    """
    body = orjson.loads(raw)
    listed = body.get("keys") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        raise ValueError("not a key set")
    found: dict[str, Mapping[str, Any]] = {}
    for key in listed[:_MOST_KEYS]:
        if (
            not isinstance(key, dict)
            or key.get("use", "sig") != "sig"
            or key.get("kty") not in ALGORITHMS
        ):
            continue
        if "key_ops" in key and "verify" not in key["key_ops"]:
            continue
        kid = key.get("kid", "")
        if isinstance(kid, str):
            found.setdefault(kid, key)
    return found


def _for_algorithm(key: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """Return the key for an algorithm; None: it does not fit the algorithm, or is too short."""
    kind = str(key["kty"])
    if algorithm not in ALGORITHMS[kind] or key.get("alg", algorithm) != algorithm:
        return None
    try:
        made = jwt.PyJWK(dict(key), algorithm=algorithm if kind == "RSA" else None)
    except jwt.PyJWTError:
        return None
    if made.algorithm_name != algorithm or (
        getattr(made.key, "key_size", _LEAST_RSA_BITS) < _LEAST_RSA_BITS and kind == "RSA"
    ):
        return None
    return made


@asynccontextmanager
async def open_jwks(url: str) -> AsyncIterator[JwksCache]:
    """Open a cache of the keys at a URL until the end of the block. Redirects are not followed."""
    async with open_http_client(
        url, timeout=_TIMEOUT_S, follow_redirects=False, headers={"Accept": "application/json"}
    ) as http:

        async def fetch() -> bytes:
            async with asyncio.timeout(2 * _TIMEOUT_S), http.stream("GET", url) as answer:
                answer.raise_for_status()
                parts, size = [], 0
                async for part in answer.aiter_bytes(65_536):
                    parts.append(part)
                    size += len(part)
                    if size > _MOST_BYTES:
                        raise ValueError("too large for a key set")
            return b"".join(parts)

        yield JwksCache(fetch)
