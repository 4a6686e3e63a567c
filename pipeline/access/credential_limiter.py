"""Rate and concurrency limits per credential, and the response headers about them.

Source of the headers: draft-ietf-httpapi-ratelimit-headers-10. `RateLimit` contains the remaining
requests (`r`) and the seconds until the next ones are available (`t`); in a 429 response, `t`
equals `Retry-After`.
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
    """An admitted request; see `livedex.pipeline.http.authentication.Admission`.

    Attributes:
        headers: for the response.
        leave: called once at the end of the request; None: nothing to release.
    """

    headers: Mapping[str, str]
    leave: Callable[[], None] | None = field(default=None)

    def release(self) -> None:
        """Record the end of the request; further calls have no effect."""
        leave, self.leave = self.leave, None
        if leave is not None:
            leave()


class CredentialLimiter:
    """Implements `livedex.pipeline.http.authentication.RequestLimiter`. Requests without a
    credential are not limited.

    Args:
        rate: None: the rate is not limited.
        concurrency: None: the concurrency is not limited.
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
        """Admit a request; None: nothing is limited.

        Args:
            caller: of the request.

        Raises:
            HTTPException: 429, the credential exceeds a limit.
        """
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
                f"this credential may have at most {most} concurrent requests: wait for one to end",
                headers | {"Retry-After": "1"},
            )
        concurrency = self._concurrency
        return Permit(headers, lambda: concurrency.leave(credential))

    def _too_many(self, standing: RateLimitState, headers: dict[str, str]) -> HTTPException:
        assert self._rate is not None
        detail = (
            f"this credential may send {self._rate.per_minute} requests per minute: retry in "
            f"{standing.reset_s} s"
        )
        return HTTPException(429, detail, headers | {"Retry-After": str(standing.reset_s)})
