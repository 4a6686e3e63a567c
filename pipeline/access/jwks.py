"""The public keys of an issuer of tokens, fetched and kept.

A key that is not known makes us look again, but at most once in `_AGAIN_S`: whoever sends tokens
with made-up key ids makes us fetch nothing more. While the issuer is away, keys that were fetched
within a day still count.
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
"""By the kind of key.

Signatures by a shared secret are not among them: who can check one could make one.
"""

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
        """The bytes.

        Raises:
            httpx.HTTPError, TimeoutError, ValueError: they are not to be had.
        """
        ...


class JwksCache:
    """The keys of one issuer.

    Args:
        fetch: gets the key set.
        clock: seconds, monotonic.
    """

    def __init__(self, fetch: JwksFetcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str, Mapping[str, Any]] = {}
        self._fetched = float("-inf")
        self._tried = float("-inf")
        self._turn = asyncio.Lock()

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key that a token names, for an algorithm.

        Args:
            kid: None: the only one there is.

        Returns:
            None where there is no such key, or it is none for this algorithm.

        Raises:
            OutageError: no keys could be had for too long.
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
            log.warning("the keys of the token issuer cannot be fetched: %s", type(exc).__name__)
            return
        if not keys:
            log.warning("the token issuer publishes no key that can be used")
        self._keys, self._fetched = keys, self._clock()


def parse_jwks(raw: bytes) -> dict[str, Mapping[str, Any]]:
    """The keys for signatures in a key set, by id; one without an id is called ''.

    Raises:
        ValueError: it is no key set.
    """
    body = orjson.loads(raw)
    listed = body.get("keys") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no key set")
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
    """The key made ready; None where it is none for this algorithm, or too short."""
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
    """The keys that stand at a URL, for as long as the block lasts. Redirects are not followed."""
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
                        raise ValueError("more than a key set")
            return b"".join(parts)

        yield JwksCache(fetch)
