"""POST /v1/hooks/{source}: what a system that is configured sends, known by its signature,
understood by its map or preset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from livedex.connectors.webhook.change_lister import DELIVERY_KEY
from livedex.connectors.webhook.payload_mapper import PayloadMapper
from livedex.connectors.webhook.presets import PRESETS
from livedex.connectors.webhook.presets.path_filter import PathFilter
from livedex.connectors.webhook.signatures import Verify, make_verifier
from livedex.connectors.webhook.verification_handshake import VerificationHandshake
from livedex.pipeline.api.events import accepted_response, check_contents
from livedex.pipeline.api.openapi import request_body_schema
from livedex.pipeline.api.schemas import AcceptedEvents, accepted_responses
from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.http.bodies import is_json, media_type
from livedex.pipeline.http.body_budget import BodyBudget
from livedex.pipeline.http.validation import parse_json, parse_off_loop
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.ingest.request_ingester import RequestIngester
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.webhook_source import (
    WebhookSource,
    signing_secrets,
    unset_secret_variables,
)

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
    read: Callable[[Any], list[ChangeRequest]]
    verify: Verify
    handshake: VerificationHandshake | None = None

    @property
    def startup_warnings(self) -> Iterator[str]:
        """What the operator should know before anything comes."""
        made = self.source.map
        if (
            made is not None
            and self.source.signature in ("gitlab", "token")
            and not (made.version or made.event_id)
        ):
            yield (
                f"source {self.source.name}: without a version or an event_id in its map, what "
                "is sent again later counts as new"
            )
        if self.handshake is not None:
            yield self.handshake.startup_warning


def payload_reader(source: WebhookSource) -> Callable[[Any], list[ChangeRequest]]:
    """What payloads of a source change.

    Raises:
        ConfigError: its map is no JMESPath, or a glob has no sense.
    """
    if source.map is not None:
        return PayloadMapper(source, source.map).read
    assert source.preset is not None
    PathFilter(source)
    read = PRESETS[source.preset].read
    return lambda payload: [replace(item, acl=source.acl) for item in read(source, payload)]


def load_hooks(
    sources: Sequence[WebhookSource], environment: Mapping[str, str] | None = None
) -> Mapping[str, Hook]:
    """The sources that send, by their names.

    Args:
        sources: that the settings name.
        environment: where their secrets stand; default: the process's.

    Raises:
        ConfigError: a source has no secret, or one without sense, or a map without sense.
    """
    return {source.name: _hook(source, environment) for source in sources}


def _hook(source: WebhookSource, environment: Mapping[str, str] | None) -> Hook:
    to_come = unset_secret_variables(source, environment)
    handshake = VerificationHandshake(source.name, to_come) if to_come else None
    return Hook(
        source,
        payload_reader(source),
        make_verifier(source, signing_secrets(source, environment)),
        handshake,
    )


def hooks_router(
    hooks: Mapping[str, Hook],
    receiver: RequestIngester,
    admission: BodyBudget,
    *,
    max_document_bytes: int,
) -> APIRouter:
    """The route that takes payloads of other systems.

    Args:
        hooks: by the name of the source.
        receiver: publishes the changes.
        admission: limits the bytes of bodies that are read at once.
        max_document_bytes: of one body, in bytes.
    """
    router = APIRouter(tags=["events"])

    @router.post(
        "/v1/hooks/{source}",
        name="send_payload",
        status_code=202,
        responses=accepted_responses(AcceptedEvents, 401, 403, 404, 408, 409, 413, 415, 422, 503),
        openapi_extra={**request_body_schema(("application/json", _PAYLOAD)), "security": []},
    )
    async def receive(request: Request, source: str) -> Response:
        """Take what a configured system sends, signed by its own rule. No API key is needed: the
        signature says who it is.

        What means nothing for any document is accepted too, without a token.

        Raises:
            HTTPException: the request is refused, with the status and the reason.
            NotFoundError: no source is called so.
        """
        hook = hooks.get(source)
        if hook is None:
            raise NotFoundError("no source that sends is called so")
        async with admission.body(request, hook.source.max_bytes) as raw:
            if hook.handshake is not None and hook.handshake.takes(raw):
                return accepted_response([])
            delivery_id = delivery_id_of(hook.source, hook.verify(request.headers, raw), raw)
            if not is_json(media_type(request)):
                raise HTTPException(
                    415,
                    "a payload is JSON and says so: choose application/json where the "
                    "webhook is set up",
                )
            incoming = _named(
                hook.source, hook.read(await parse_off_loop(parse_json, raw)), delivery_id
            )
            check_contents(receiver, incoming, [("url",)] * len(incoming), max_document_bytes)
            tenant_id = TenantId(hook.source.tenant)
            return accepted_response(
                await receiver.accept(tenant_id, f"hooks/{source}", incoming, source=source)
            )

    return router


def delivery_id_of(source: WebhookSource, delivery_id: str | None, body: bytes) -> str | None:
    """What a delivery is known by when it comes again: by what was signed alone, since anybody can
    send signed bytes under another id.

    Args:
        source: the source, as the settings describe it.
        delivery_id: as the sender says; GitHub does not sign it. The presets look at where the
            content is now, whatever they are sent.
        body: the exact bytes that were sent.
    """
    if source.map is None or source.signature not in ("github", "hmac"):
        return delivery_id
    return hashlib.sha256(body).hexdigest()


def _named(
    source: WebhookSource, incoming: Sequence[ChangeRequest], delivery_id: str | None
) -> list[ChangeRequest]:
    """The changes, known by what they say of themselves, else by their place in the delivery; by
    both where what they say may come again.
    """
    if delivery_id is None:
        return list(incoming)
    if source.preset is not None and PRESETS[source.preset].payloads_repeat:
        named = [
            replace(item, delivery_id=f"{item.delivery_id} {delivery_id}") for item in incoming
        ]
        return [
            replace(item, metadata={DELIVERY_KEY: item.delivery_id}) if item.listing else item
            for item in named
        ]
    return [
        item if item.delivery_id else replace(item, delivery_id=f"{delivery_id}/{n}")
        for n, item in enumerate(incoming)
    ]
