"""The limits of each credential, and what an answer says of them.

Source of the headers: draft-ietf-httpapi-ratelimit-headers-10. `RateLimit` tells the requests that
are left (`r`) and the seconds until there are more (`t`); after a refusal that is the same time as
in `Retry-After`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from livedex.pipeline.access.concurrency_limiter import ConcurrencyLimiter
from livedex.pipeline.access.rate_limiter import RateLimiter, RateLimitState
from livedex.pipeline.http.authentication import Admission, Caller


@dataclass(slots=True)
class Permit:
    """A request that was let in; see `livedex.pipeline.http.authentication.Admission`."""

    headers: Mapping[str, str]
    leave: Callable[[], None] | None = field(default=None)

    def release(self) -> None:
        """The request has ended; a second call changes nothing."""
        leave, self.leave = self.leave, None
        if leave is not None:
            leave()


class CredentialLimiter:
    """`livedex.pipeline.http.authentication.RequestLimiter` for whoever shows a credential; who
    needs none is not limited.

    Args:
        rate, concurrency: None: not limited.
    """

    def __init__(self, rate: RateLimiter | None, concurrency: ConcurrencyLimiter | None) -> None:
        self._rate = rate
        self._concurrency = concurrency
        policies = [f'"requests";q={rate.per_minute};w=60'] if rate else []
        policies += (
            [f'"concurrency";q={concurrency.most};qu="concurrent-requests"'] if concurrency else []
        )
        self._policy = {"RateLimit-Policy": ", ".join(policies)} if policies else {}

    async def admit(self, caller: Caller) -> Admission | None:
        """See the protocol."""
        credential = caller.credential
        if not credential or not self._policy:
            return None
        headers = dict(self._policy)
        if self._rate is not None:
            standing = await self._rate.take(credential)
            headers["RateLimit"] = f'"requests";r={standing.remaining};t={standing.reset_s}'
            if not standing.allowed:
                raise self._too_many(standing, headers)
        if self._concurrency is None:
            return Permit(headers)
        if not await self._concurrency.enter(credential):
            most = self._concurrency.most
            raise HTTPException(
                429,
                f"this credential has {most} requests under way, and may not have more",
                headers | {"Retry-After": "1"},
            )
        concurrency = self._concurrency
        return Permit(headers, lambda: concurrency.leave(credential))

    def _too_many(self, standing: RateLimitState, headers: dict[str, str]) -> HTTPException:
        assert self._rate is not None
        detail = (
            f"this credential may ask {self._rate.per_minute} times a minute: ask again in "
            f"{standing.reset_s} s"
        )
        return HTTPException(429, detail, headers | {"Retry-After": str(standing.reset_s)})
