"""Make one delivery attempt, and interpret the response.

| response | meaning |
|---|---|
| 2xx | delivered |
| 410 | unsubscribed |
| 429; 503 with Retry-After | rate limited: does not count as an attempt |
| 502, 503, 504; timeout; no connection | unavailable |
| anything else, redirects included | rejected |

Messages contain the host of the URL and the status of the response, and nothing else of them.
Source: Standard Webhooks 1.0.0, "Delivery success and failure".
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

import httpcore

from livedex.consumers.notify.signing import signed_headers
from livedex.pipeline.errors import LivedexError, RejectedError
from livedex.pipeline.events.notifications import Notification
from livedex.pipeline.fetch.responses import parse_headers
from livedex.pipeline.fetch.ssrf_guard import NoPublicAddressError
from livedex.pipeline.fetch.urls import ParsedUrl
from livedex.pipeline.http.retry_after import parse_retry_after_s

TOTAL_TIMEOUT_S = 20.0
"""For one attempt, from the name of the host to the answer's status.

Source: Standard Webhooks 1.0.0, "Request timeouts": 15 to 30 s.
"""

_CONNECT_S = 5.0
_IDLE_S = 4.0  # many servers close after 5
_REST_S = 1.0
# read so that the connection can be reused; a longer response closes it
_MAX_RESPONSE_BYTES = 65_536
_CONSTANT = {
    "Content-Type": "application/cloudevents+json",
    "User-Agent": "Livedex",
    "Accept": "*/*",
}
_UNAVAILABLE = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Delivered:
    """The subscriber accepted the notification."""


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The subscriber wants no more notifications."""

    detail: str


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    """The delivery failed.

    Attributes:
        detail: what happened.
        reason: a code from a closed set: `refused`, `unreachable`, `address_refused`, `throttled`.
        retry_after_s: seconds of its Retry-After.
    """

    detail: str
    reason: str
    retry_after_s: float | None = None

    @property
    def is_subscriber_failure(self) -> bool:
        """Return whether other notifications would fail for the same reason."""
        return self.reason != "refused"

    @property
    def counts_as_attempt(self) -> bool:
        """Return whether the number of attempts grows."""
        return self.reason != "throttled"


DeliveryResult: TypeAlias = Delivered | Unsubscribed | DeliveryFailed


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Endpoint of a subscriber.

    Attributes:
        keys: for signatures, at least one.
        place: its URL.
        backend: connects to allowed addresses only; it connects to the address that it checked.
        trust: verifies servers.
    """

    place: ParsedUrl
    keys: Sequence[bytes]
    backend: httpcore.AsyncNetworkBackend
    trust: ssl.SSLContext


class WebhookSender:
    """Sends notifications to one subscriber over its own connections.

    Args:
        route: endpoint of the subscriber.
        pool: its connections.
        clock: returns seconds since 1970.
    """

    def __init__(
        self,
        route: Endpoint,
        pool: httpcore.AsyncConnectionPool,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._place, self._keys, self._pool, self._clock = route.place, route.keys, pool, clock
        place = route.place
        self._url = httpcore.URL(
            scheme=place.scheme, host=place.host, port=place.port, target=place.target
        )

    async def send(self, notice: Notification) -> DeliveryResult:
        """Make one attempt, within `TOTAL_TIMEOUT_S`.

        Args:
            notice: to deliver.
        """
        try:
            async with asyncio.timeout(TOTAL_TIMEOUT_S):
                status, headers = await self._post(notice)
        except (RejectedError, NoPublicAddressError) as exc:
            if isinstance(exc, NoPublicAddressError) and not exc.resolves_to_private:
                return DeliveryFailed(f"{self._place.host}: there is no such host", "unreachable")
            return DeliveryFailed(
                f"{self._place.host} is not at a public address: if it may be notified there, "
                "add it to allow_hosts",
                "address_refused",
            )
        except LivedexError as exc:
            return DeliveryFailed(str(exc), "unreachable")
        except (
            httpcore.NetworkError,
            httpcore.TimeoutException,
            httpcore.ProtocolError,
            OSError,
        ) as exc:  # OSError holds TimeoutError
            kind = (
                "no answer in time"
                if isinstance(exc, TimeoutError | httpcore.TimeoutException)
                else type(exc).__name__
            )
            return DeliveryFailed(f"{self._place.host}: {kind}", "unreachable")
        return _meaning(status, headers, self._place.host)

    async def _post(self, notice: Notification) -> tuple[int, Mapping[str, str]]:
        body = notice.encode()
        headers = {
            "Host": self._place.authority,
            "Content-Length": str(len(body)),
            **_CONSTANT,
            **signed_headers(self._keys, notice.webhook_id, int(self._clock()), body),
        }
        timeout = {
            "connect": _CONNECT_S,
            "read": TOTAL_TIMEOUT_S,
            "write": TOTAL_TIMEOUT_S,
            "pool": TOTAL_TIMEOUT_S,
        }
        async with self._pool.stream(
            "POST",
            self._url,
            headers=list(headers.items()),
            content=body,
            extensions={"timeout": timeout},
        ) as answer:
            with suppress(
                TimeoutError,
                httpcore.NetworkError,
                httpcore.TimeoutException,
                httpcore.ProtocolError,
            ):  # the status has said all
                async with asyncio.timeout(_REST_S):
                    await _read_some(answer)
            return answer.status, parse_headers(answer.headers)


@asynccontextmanager
async def open_webhook_sender(
    route: Endpoint, *, at_once: int, clock: Callable[[], float] = time.time
) -> AsyncIterator[WebhookSender]:
    """Open a sender for the block.

    Args:
        route: endpoint of the subscriber.
        at_once: maximum number of connections.
        clock: returns seconds since 1970.
    """
    async with httpcore.AsyncConnectionPool(
        ssl_context=route.trust,
        max_connections=at_once,
        max_keepalive_connections=at_once,
        keepalive_expiry=_IDLE_S,
        network_backend=route.backend,
    ) as pool:
        yield WebhookSender(route, pool, clock=clock)


async def _read_some(answer: httpcore.Response) -> None:
    size = 0
    async for data in answer.aiter_stream():
        size += len(data)
        if size > _MAX_RESPONSE_BYTES:
            return


def _meaning(status: int, headers: Mapping[str, str], host: str) -> DeliveryResult:
    if 200 <= status < 300:
        return Delivered()
    said = f"{host} answered with HTTP {status}"
    if status == 410:
        return Unsubscribed(said)
    asked_s = parse_retry_after_s(headers.get("retry-after"), datetime.now(UTC))
    if status == 429 or (status == 503 and asked_s is not None):
        return DeliveryFailed(f"{said}: rate limited", "throttled", asked_s)
    if status in _UNAVAILABLE:
        return DeliveryFailed(said, "unreachable", asked_s)
    return DeliveryFailed(
        f"{said}: redirects are not followed" if 300 <= status < 400 else said, "refused", asked_s
    )
