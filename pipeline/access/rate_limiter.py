"""Limits requests per minute and credential over all processes, with token buckets in the database.

A bucket holds the requests of one minute. A process takes several tokens at a time, so that most
requests need no round trip. Taken tokens leave the bucket, so the limit is never exceeded.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

_SHARES = 20  # a process takes 1/20 of a minute's tokens at a time
_MOST_AT_ONCE = 50
_LASTS_S = 60.0  # unused tokens of a process expire after this time
_MOST = 10_000  # cached credentials


class TokenBuckets(Protocol):
    """Token buckets shared by all processes;
    `livedex.pipeline.store.rate_limit_store.RateLimitStore` implements it.
    """

    async def take_rate(self, credential: str, per_minute: int, wanted: int) -> tuple[int, float]:
        """Return the tokens taken, 0 to `wanted`, and the tokens left."""
        ...


@dataclass(frozen=True, slots=True)
class RateLimitState:
    """The state of a credential's limit after a request.

    Attributes:
        allowed: whether the request is within the limit.
        remaining: remaining requests, >= 0.
        reset_s: seconds until the bucket is full, or after a rejection until the next token; >= 0.
    """

    allowed: bool
    remaining: int
    reset_s: int


@dataclass(slots=True)
class _LocalTokens:
    """Tokens that this process took from a bucket. Times are those of the monotonic clock."""

    had: int = 0
    left: float = 0.0
    until: float = 0.0
    empty_until: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class RateLimiter:
    """Limits requests per minute.

    Args:
        buckets: shared by all processes.
        per_minute: requests per credential, >= 1; also the maximum burst.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, buckets: TokenBuckets, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.per_minute = per_minute
        self._buckets = buckets
        self._clock = clock
        self._wanted = max(1, min(per_minute // _SHARES, _MOST_AT_ONCE))
        self._shares: OrderedDict[str, _LocalTokens] = OrderedDict()

    async def take(self, credential: str) -> RateLimitState:
        """Count a request, and return the state of the limit.

        Args:
            credential: id of the API key or token.

        Raises:
            OutageError: the buckets are unavailable.
            RetryableError: a retry can succeed.
        """
        share = self._share(credential)
        if not self._has(share):
            async with share.turn:
                if not self._has(share) and self._clock() >= share.empty_until:
                    await self._fetch(credential, share)
        if not self._has(share):
            return RateLimitState(False, 0, max(1, math.ceil(share.empty_until - self._clock())))
        share.had -= 1
        remaining = share.had + math.floor(share.left)
        return RateLimitState(
            True, remaining, math.ceil((self.per_minute - remaining) * 60 / self.per_minute)
        )

    async def _fetch(self, credential: str, share: _LocalTokens) -> None:
        had, left = await self._buckets.take_rate(credential, self.per_minute, self._wanted)
        now = self._clock()
        share.had, share.left, share.until = had, left, now + _LASTS_S
        if not had:
            share.empty_until = now + (1 - left) * 60 / self.per_minute

    def _has(self, share: _LocalTokens) -> bool:
        return share.had > 0 and self._clock() < share.until

    def _share(self, credential: str) -> _LocalTokens:
        share = self._shares.setdefault(credential, _LocalTokens())
        self._shares.move_to_end(credential)
        while len(self._shares) > _MOST:
            self._shares.popitem(last=False)
        return share
