"""Requests a minute of each credential, shared between processes.

The bucket of a credential stands in the database, fills evenly and holds one minute's requests. A
process takes a small share of it at a time, so that most requests cost no round trip; what is taken
is gone from the bucket, so no more than the limit is ever let in.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

_SHARES = 20  # of a minute's requests in the bucket
_MOST_AT_ONCE = 50
_LASTS_S = 60.0  # a share that was not used up by then is given up
_MOST = 10_000  # credentials remembered


class TokenBuckets(Protocol):
    """Where all processes take from; `livedex.pipeline.store.rate_limit_store.RateLimitStore` is
    one.
    """

    async def take_rate(self, credential: str, per_minute: int, wanted: int) -> tuple[int, float]:
        """How many of the wanted requests were had, and how many are left."""
        ...


@dataclass(frozen=True, slots=True)
class RateLimitState:
    """Where a credential stands after a request.

    Attributes:
        allowed: whether the request may go on.
        remaining: requests left now, >= 0.
        reset_s: seconds until there are more: all of them, or after a refusal the next one; >= 0.
    """

    allowed: bool
    remaining: int
    reset_s: int


@dataclass(slots=True)
class _LocalTokens:
    """What this process has of a bucket. Moments by the monotonic clock."""

    had: int = 0
    left: float = 0.0
    until: float = 0.0
    empty_until: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class RateLimiter:
    """Counts requests.

    Args:
        per_minute: of each credential, >= 1; so many may also come at once.
        clock: seconds, monotonic.
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
        """Count a request.

        Raises:
            OutageError, RetryableError: as the buckets do.
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
