"""A sender to a subscriber on loopback, by names that lead where a test says."""

from __future__ import annotations

import base64
import ssl
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime

import pytest

from livedex.consumers.notify.webhook_sender import DeliveryResult, Endpoint, open_webhook_sender
from livedex.pipeline.events.notifications import Notification
from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from livedex.pipeline.fetch.ssrf_guard import SsrfGuardBackend
from livedex.pipeline.fetch.urls import parse_url
from livedex.pipeline.model import TenantId
from tests.support.http.scripted_subscriber import SECRET, SubscriberServer

KEY = base64.b64decode(SECRET.removeprefix("whsec_"))
NOTICE = Notification(
    7,
    TenantId("acme"),
    "shop",
    uuid.UUID(int=7),
    "synced",
    "docs/a.md",
    3,
    {"state": "synced", "collection": "c", "source": "docs"},
    datetime(2026, 11, 30, 12, tzinfo=UTC),
)

Send = Callable[..., Awaitable[DeliveryResult]]


@pytest.fixture
def receiver() -> Iterator[SubscriberServer]:
    with SubscriberServer() as server:
        yield server


@pytest.fixture
def send(receiver: SubscriberServer) -> Send:
    """Sends the notice to a URL; default: the receiver's.

    Names lead to `addresses`, and `allowed` may be private.
    """

    async def sent(
        url: str = "/hook?token=hidden",
        *,
        addresses: Sequence[str] = (),
        allowed: Sequence[str] | None = None,
    ) -> DeliveryResult:
        async def resolve(host: str, port: int) -> Sequence[str]:
            return addresses

        hosts = HostAllowlist([receiver.host] if allowed is None else allowed)
        place = parse_url(receiver.address + url if url.startswith("/") else url)
        route = Endpoint(
            place, [KEY], SsrfGuardBackend(resolve, hosts, 2.0), ssl.create_default_context()
        )
        async with open_webhook_sender(route, at_once=1) as sender:
            return await sender.send(NOTICE)

    return sent
