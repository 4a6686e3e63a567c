"""POST /v1/hooks/{source}: what a system that is configured sends, known by its signature, understood by its map or preset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from livedex.connectors.webhook.change_lister import DELIVERY
from livedex.connectors.webhook.payload_mapper import Mapper
from livedex.connectors.webhook.presets import SENDERS
from livedex.connectors.webhook.presets.path_filter import Paths
from livedex.connectors.webhook.signatures import Verify, verifier
from livedex.connectors.webhook.verification_handshake import Handshake
from livedex.pipeline.api.events import answer, check_content
from livedex.pipeline.api.openapi import described
from livedex.pipeline.api.schemas import AcceptedEvents, accepted
from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.http.bodies import is_json, media_type
from livedex.pipeline.http.body_budget import Admission
from livedex.pipeline.http.validation import off_loop, parsed
from livedex.pipeline.ingest.change_request import Incoming
from livedex.pipeline.ingest.request_ingester import Receiver
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.webhook_source import WebhookSource, secrets_of, secrets_to_come

_PAYLOAD: dict[str, Any] = {"description": "as the system that is configured sends it"}


@dataclass(frozen=True, slots=True)
class Hook:
    """A source that sends.

    Attributes:
        read: what a payload changes.
        verify: who sent it.
        handshake: where a secret that its sender makes up has not come yet.
    """

    source: WebhookSource
    read: Callable[[Any], list[Incoming]]
    verify: Verify
    handshake: Handshake | None = None

    @property
    def cautions(self) -> Iterator[str]:
        """What the operator should know before anything comes."""
        made = self.source.map
        if made is not None and self.source.signature in ("gitlab", "token") and not (made.version or made.event_id):
            yield f"source {self.source.name}: without a version or an event_id in its map, what is sent again later counts as new"
        if self.handshake is not None:
            yield self.handshake.caution


def reader(source: WebhookSource) -> Callable[[Any], list[Incoming]]:
    """What payloads of a source change.

    Raises:
        ConfigError: its map is no JMESPath, or a glob has no sense.
    """
    if source.map is not None:
        return Mapper(source, source.map).read
    assert source.preset is not None
    Paths(source)
    read = SENDERS[source.preset].read
    return lambda payload: [replace(item, acl=source.acl) for item in read(source, payload)]


def open_hooks(sources: Sequence[WebhookSource], environment: Mapping[str, str] | None = None) -> Mapping[str, Hook]:
    """The sources that send, by their names.

    Args:
        environment: where their secrets stand; default: the process's.

    Raises:
        ConfigError: a source has no secret, or one without sense, or a map without sense.
    """
    return {source.name: _hook(source, environment) for source in sources}


def _hook(source: WebhookSource, environment: Mapping[str, str] | None) -> Hook:
    to_come = secrets_to_come(source, environment)
    handshake = Handshake(source.name, to_come) if to_come else None
    return Hook(source, reader(source), verifier(source, secrets_of(source, environment)), handshake)


def hooks_router(hooks: Mapping[str, Hook], receiver: Receiver, admission: Admission, *, max_document_bytes: int) -> APIRouter:
    """The route that takes payloads of other systems.

    Args:
        hooks: by the name of the source.
    """
    router = APIRouter(tags=["events"])

    @router.post(
        "/v1/hooks/{source}",
        name="send_payload",
        status_code=202,
        responses=accepted(AcceptedEvents, 401, 403, 404, 408, 409, 413, 415, 422, 503),
        openapi_extra={**described(("application/json", _PAYLOAD)), "security": []},
    )
    async def receive(request: Request, source: str) -> Response:
        """Take what a configured system sends, signed by its own rule. No API key is needed: the signature says who it is.

        What means nothing for any document is accepted too, without a token.
        """
        hook = hooks.get(source)
        if hook is None:
            raise NotFoundError("no source that sends is called so")
        async with admission.body(request, hook.source.max_bytes) as raw:
            if hook.handshake is not None and hook.handshake.takes(raw):
                return answer([])
            delivery_id = named_by(hook.source, hook.verify(request.headers, raw), raw)
            if not is_json(media_type(request)):
                raise HTTPException(415, "a payload is JSON and says so: choose application/json where the webhook is set up")
            incoming = _named(hook.source, hook.read(await off_loop(parsed, raw)), delivery_id)
            check_content(receiver, incoming, [("url",)] * len(incoming), max_document_bytes)
            tenant_id = TenantId(hook.source.tenant)
            return answer(await receiver.accept(tenant_id, f"hooks/{source}", incoming, source=source))

    return router


def named_by(source: WebhookSource, delivery_id: str | None, body: bytes) -> str | None:
    """What a delivery is known by when it comes again: by what was signed alone, since anybody can send signed bytes under another id.

    Args:
        delivery_id: as the sender says; GitHub does not sign it. The presets look at where the content is now, whatever they are sent.
    """
    if source.map is None or source.signature not in ("github", "hmac"):
        return delivery_id
    return hashlib.sha256(body).hexdigest()


def _named(source: WebhookSource, incoming: Sequence[Incoming], delivery_id: str | None) -> list[Incoming]:
    """The changes, known by what they say of themselves, else by their place in the delivery; by both where what they say may come again."""
    if delivery_id is None:
        return list(incoming)
    if source.preset is not None and SENDERS[source.preset].is_alike:
        named = [replace(item, delivery_id=f"{item.delivery_id} {delivery_id}") for item in incoming]
        return [replace(item, metadata={DELIVERY: item.delivery_id}) if item.listing else item for item in named]
    return [item if item.delivery_id else replace(item, delivery_id=f"{delivery_id}/{n}") for n, item in enumerate(incoming)]
