"""A subscriber on loopback that checks every signature, remembers what it was told, and answers as
it is told to.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.datastructures import Headers

from livedex.connectors.webhook.signatures import Verify, make_verifier
from livedex.pipeline.settings.webhook_source import WebhookSource, signing_secrets
from tests.support.http.scripted_server import HttpRequest, HttpResponse, ScriptedServer

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes or so").decode()


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something that came, with a good signature.

    Attributes:
        arrived: by the monotonic clock.
    """

    id: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    arrived: float = field(default_factory=time.monotonic)

    @property
    def event(self) -> dict[str, Any]:
        """The CloudEvent."""
        return dict(orjson.loads(self.body))

    @property
    def said(self) -> tuple[str, str | None, int | None]:
        """Type, document and version."""
        data = self.event["data"]
        return self.event["type"], data.get("document_id"), data.get("version")


class SubscriberServer(ScriptedServer):
    """The subscriber.

    Attributes:
        deliveries: in order of arrival, whatever was answered.
        unsigned: requests without a good signature; no test but those that send such has any.
        answer: called with the delivery; a status, or all that is sent.
        at_once: the most requests that were there at the same time.
    """

    def __init__(self, secret: str = SECRET) -> None:
        self.deliveries: list[Delivery] = []
        self.unsigned: list[HttpRequest] = []
        self.answer: Callable[[Delivery], int | HttpResponse] = lambda delivery: 204
        self.at_once = self._now = 0
        self._lock = threading.Lock()
        self._verify = incoming_verifier(secret)
        super().__init__()

    @property
    def host(self) -> str:
        """`host:port`, for `allow_hosts`."""
        return self.address.removeprefix("http://")

    @property
    def ids(self) -> list[str]:
        """The id of each delivery."""
        return [delivery.id for delivery in self.deliveries]

    @property
    def said(self) -> list[tuple[str, str | None, int | None]]:
        """Type, document and version of each delivery."""
        return [delivery.said for delivery in self.deliveries]

    async def told(self, number: int, timeout_s: float = 30) -> list[Delivery]:
        """Wait until so many deliveries came; all there are."""
        async with asyncio.timeout(timeout_s):
            while len(self.deliveries) < number:  # another thread's
                await asyncio.sleep(0.01)
        return list(self.deliveries)

    def reply_to(self, request: HttpRequest) -> HttpResponse:
        try:
            delivery_id = self._verify(Headers(dict(request.headers)), request.body)
        except Exception:  # noqa: BLE001  # whatever is wrong with it: the test sees it
            self.unsigned.append(request)
            return HttpResponse(401, b"", {})
        delivery = Delivery(str(delivery_id), request.path, request.headers, request.body)
        with self._lock:
            self.deliveries.append(delivery)
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            answer = self.answer(delivery)
        finally:
            with self._lock:
                self._now -= 1
        return HttpResponse(answer, b"", {}) if isinstance(answer, int) else answer


def incoming_verifier(secret: str) -> Verify:
    """What Livedex itself checks signatures of Standard Webhooks with."""
    source = WebhookSource(
        name="s",
        secret_env=("S",),
        signature="standard-webhooks",
        map={"document_id": "id", "text": "text"},
        order="arrival",
    )
    return make_verifier(source, signing_secrets(source, {"S": secret}))
