"""The receiver's routes, put together from what it is handed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter

from livedex.connectors.webhook.hooks import Hook, hooks_router
from livedex.pipeline.api.document_writes import documents_router
from livedex.pipeline.api.events import events_router
from livedex.pipeline.http.body_budget import BodyBudget
from livedex.pipeline.ingest.request_ingester import RequestIngester

_REQUESTS = 64
_HOOK_READ_S = 10.0
_ROOM_BYTES = 64 * 1024 * 1024


def routers(
    receiver: RequestIngester, hooks: Mapping[str, Hook] | None = None, *, max_document_bytes: int
) -> Sequence[APIRouter]:
    """What is to be included in the app.

    Args:
        receiver: publishes changes.
        hooks: as from `open_hooks`; None: no system is configured.
        max_document_bytes: of a document, not of the body that carries it.
    """
    hooks = hooks or {}
    most_bytes = body_limit(max_document_bytes)
    admission = BodyBudget(requests=_REQUESTS, room_bytes=_ROOM_BYTES, large_bytes=most_bytes)
    largest = max([0, *(hook.source.max_bytes for hook in hooks.values())])
    # Of its own, and soon over: who sends to a hook is known only once the body is there, and must
    # keep nobody out who has a key.
    for_anybody = BodyBudget(
        requests=_REQUESTS, room_bytes=_ROOM_BYTES // 2, large_bytes=largest, read_s=_HOOK_READ_S
    )
    return [
        documents_router(
            receiver, admission, most_bytes=most_bytes, max_document_bytes=max_document_bytes
        ),
        events_router(
            receiver, admission, most_bytes=most_bytes, max_document_bytes=max_document_bytes
        ),
        hooks_router(hooks, receiver, for_anybody, max_document_bytes=max_document_bytes),
    ]


def body_limit(max_document_bytes: int) -> int:
    """The most bytes of a body with such a document: what Base64 or the escapes of JSON add to
    most texts, and 64 KiB for the rest.
    """
    return 2 * max_document_bytes + 65_536
