"""POST /v1/events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from livedex.pipeline.api.cloudevents_binding import (
    BATCH_MEDIA_TYPE,
    MAX_BATCH_EVENTS,
    STRUCTURED_MEDIA_TYPE,
    event_schema,
    read_events,
)
from livedex.pipeline.api.openapi import request_body_schema
from livedex.pipeline.api.schemas import WRITE_ERROR_STATUSES, AcceptedEvents, accepted_responses
from livedex.pipeline.api.services import EventWriter
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.bodies import media_type
from livedex.pipeline.http.body_budget import BodyBudget
from livedex.pipeline.http.validation import FieldPath, InvalidFieldError, parse_off_loop
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.ingest.request_ingester import AcceptedChange, RequestIngester
from livedex.pipeline.model import TenantId

_SENDER = "events"


def events_router(
    receiver: RequestIngester, admission: BodyBudget, *, most_bytes: int, max_document_bytes: int
) -> APIRouter:
    """Return the route that accepts CloudEvents.

    Args:
        receiver: accepts the changes.
        admission: limits the memory for bodies.
        most_bytes: maximum size of a body.
        max_document_bytes: maximum size of each document in it.
    """
    router = APIRouter(tags=["events"])
    event = event_schema(can_fetch=receiver.fetcher is not None)
    batch: dict[str, Any] = {
        "type": "array",
        "items": event,
        "description": f"at most {MAX_BATCH_EVENTS} events",
    }

    @router.post(
        "/v1/events",
        name="send_events",
        status_code=202,
        responses=accepted_responses(AcceptedEvents, *WRITE_ERROR_STATUSES),
        openapi_extra=request_body_schema(
            (STRUCTURED_MEDIA_TYPE, event),
            (BATCH_MEDIA_TYPE, batch),
            ("application/json", {"anyOf": [event, batch]}),
        ),
    )
    async def receive(request: Request, caller: EventWriter) -> Response:
        """Accept CloudEvents 1.0: one in structured mode, a batch, or one in binary mode,
        with `ce-` headers and its data as the body.

        The events of a request are accepted or refused together. Repeating an event (same `source`
        and `id`) has no further effect.
        """
        async with admission.body(request, most_bytes) as raw:
            incoming = await parse_off_loop(
                partial(read_events, media_type(request), request.headers), raw
            )
            places: list[FieldPath] = (
                [("data", "url")]
                if len(incoming) == 1
                else [(n, "data", "url") for n in range(len(incoming))]
            )
            check_contents(receiver, incoming, places, max_document_bytes)
            check_urls(receiver, caller.tenant_id, incoming, places)
            return accepted_response(await receiver.accept(caller.tenant_id, _SENDER, incoming))

    return router


def check_contents(
    receiver: RequestIngester,
    incoming: Sequence[ChangeRequest],
    places: Sequence[FieldPath],
    max_document_bytes: int,
) -> None:
    """Check that the contents of changes can be accepted.

    Args:
        receiver: accepts the changes.
        incoming: the changes.
        places: path of the URL of each change in the body, for error messages.
        max_document_bytes: maximum size of each document.

    Raises:
        HTTPException: 413, a document is too large.
        InvalidFieldError: content is given by its URL, and this process fetches none.
    """
    for item, place in zip(incoming, places, strict=True):
        if len(item.content or b"") > max_document_bytes:
            raise HTTPException(
                413,
                f"a document may have at most {max_document_bytes} bytes: split it, or raise "
                "LIVEDEX_MAX_DOCUMENT_BYTES",
            )
        if item.url is not None and not item.deleted and receiver.fetcher is None:
            raise InvalidFieldError(
                place,
                "this service does not fetch content by URL: send it as text or content_base64",
            )


def check_urls(
    receiver: RequestIngester,
    tenant_id: TenantId,
    incoming: Sequence[ChangeRequest],
    places: Sequence[FieldPath],
) -> None:
    """Check the URLs of changes. The addresses of their hosts are checked when they are fetched.

    Args:
        receiver: accepts the changes.
        tenant_id: owner of the documents.
        incoming: the changes.
        places: path of the URL of each change in the body, for error messages.

    Raises:
        InvalidFieldError: a URL is not allowed.
    """
    for item, place in zip(incoming, places, strict=True):
        objection = (
            receiver.fetcher.refusal_reason(tenant_id, "", item.url)
            if item.url is not None and receiver.fetcher is not None
            else None
        )
        if objection is not None:
            raise InvalidFieldError(place, objection)


def accepted_response(done: Sequence[AcceptedChange]) -> Response:
    """Return the response 202 with a token for each change."""
    return JsonResponse({"tokens": [item.token for item in done]}, 202)
