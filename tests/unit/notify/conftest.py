"""A sender to a subscriber on loopback, by names that lead where a test says."""

from __future__ import annotations

import base64
import ssl
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime

import pytest

from consumers.notify.sending import Answer, Route, open_sender
from pipeline.fetching.connecting import CheckedBackend
from pipeline.fetching.hosts import Hosts
from pipeline.fetching.places import place_of
from pipeline.model import TenantId
from pipeline.notices import Notice
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
