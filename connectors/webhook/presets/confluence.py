"""Pages of Confluence that were written, moved to the trash, brought back or removed; their
contents by the REST API.

A payload says which page, not what stands in it; the version is the time at which Confluence sent
it. Confluence Cloud tells the event only by the address that it was registered with: a source
without `event` in its payloads sees every one as a change.

Source: Atlassian, "Managing Webhooks" (Data Center), "Webhooks" (Cloud), "Confluence REST API",
content.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from livedex.connectors.webhook.presets.push_events import PayloadModel
from livedex.pipeline.errors import UnexpectedResponseError
from livedex.pipeline.events.json_decoder import decode_json
from livedex.pipeline.http.validation import InvalidFieldError, validate_model
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.model import DocumentId
from livedex.pipeline.settings.webhook_source import WebhookSource

_GONE = frozenset({"page_removed", "page_trashed", "blog_removed", "blog_trashed"})
_MILLISECOND_NS = 1_000_000


class _Page(PayloadModel):
    id: (
        Annotated[int, Field(ge=0)]
        | Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[0-9A-Za-z_-]+$")]
    )
    title: str | None = None
    self: str | None = None
    spaceKey: str | None = None  # its name in the payload


class _Event(PayloadModel):
    timestamp: int = Field(ge=0)
    event: str | None = None
    page: _Page | None = None
    blog: _Page | None = None


def read(source: WebhookSource, payload: Any) -> list[ChangeRequest]:
    """The page that changed; nothing for comments, spaces and the like.

    Raises:
        InvalidFieldError: a field has the wrong type; the error names it.
    """
    if (
        not isinstance(payload, dict)
        or not (payload.get("page") or payload.get("blog"))
        or "comment" in payload
        or "attachment" in payload
    ):
        return []
    event = validate_model(_Event, payload)
    page = event.page or event.blog
    assert page is not None
    gone = event.event in _GONE
    base = (source.base_url or _base(page.self)).rstrip("/")
    if not base.startswith(("http://", "https://")):
        raise InvalidFieldError(
            ("page", "self"), "it does not say where this Confluence is: give the source a base_url"
        )
    return [
        ChangeRequest(
            DocumentId(f"{source.name}/{page.id}"),
            deleted=gone,
            url=None if gone else f"{base}/rest/api/content/{page.id}?expand=body.export_view",
            uri=page.self,
            title=page.title,
            occurred_at_ns=event.timestamp * _MILLISECOND_NS,
            precision_ns=_MILLISECOND_NS,
            delivery_id=f"{event.event} {event.timestamp}",
            mime_type="text/html",
            collection=source.collection,
            metadata={}
            if gone
            else {**source.metadata, **({"space": page.spaceKey} if page.spaceKey else {})},
        )
    ]


def _base(page_url: str | None) -> str:
    """Where the API of a Confluence is, by the address of one of its pages."""
    head, _, _ = (page_url or "").partition("/display/")
    return head.partition("/spaces/")[0].partition("/pages/")[0]


def content(answer: bytes, _mime_type: str | None = None, _url: str = "") -> bytes:
    """The page as HTML, out of what the API answers.

    Raises:
        UnexpectedResponseError: it holds none.
    """
    try:
        found = decode_json(answer)["body"]["export_view"]["value"]
    except (ValueError, KeyError, TypeError) as exc:
        raise UnexpectedResponseError("Confluence answered without the body of the page") from exc
    if not isinstance(found, str):
        raise UnexpectedResponseError("Confluence answered with a body of the page that is no text")
    return found.encode()
