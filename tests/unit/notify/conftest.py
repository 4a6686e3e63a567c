"""A sender to a subscriber on loopback, by names that lead where a test says."""

from __future__ import annotations

import base64
import ssl
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime

import pytest

from livedex.consumers.notify.webhook_sender import Answer, Route, open_sender
from livedex.pipeline.events.notifications import Notice
from livedex.pipeline.fetch.host_allowlist import Hosts
from livedex.pipeline.fetch.ssrf_guard import CheckedBackend
from livedex.pipeline.fetch.urls import place_of
from livedex.pipeline.model import TenantId
from tests.scripted_receiver import SECRET, ScriptedReceiver

KEY = base64.b64decode(SECRET.removeprefix("whsec_"))
NOTICE = Notice(
    7, TenantId("acme"), "shop", uuid.UUID(int=7), "synced", "docs/a.md", 3, {"state": "synced", "collection": "c", "source": "docs"},
    datetime(2026, 11, 30, 12, tzinfo=UTC),
)  # fmt: skip

Send = Callable[..., Awaitable[Answer]]


@pytest.fixture
def receiver() -> Iterator[ScriptedReceiver]:
    with ScriptedReceiver() as server:
        yield server


@pytest.fixture
def send(receiver: ScriptedReceiver) -> Send:
    """Sends the notice to a URL; default: the receiver's. Names lead to `addresses`, and `allowed` may be private."""

    async def sent(url: str = "/hook?token=hidden", *, addresses: Sequence[str] = (), allowed: Sequence[str] | None = None) -> Answer:
        async def resolve(host: str, port: int) -> Sequence[str]:
            return addresses

        hosts = Hosts([receiver.host] if allowed is None else allowed)
        place = place_of(receiver.address + url if url.startswith("/") else url)
        route = Route(place, [KEY], CheckedBackend(resolve, hosts, 2.0), ssl.create_default_context())
        async with open_sender(route, at_once=1) as sender:
            return await sender.send(NOTICE)

    return sent
