"""Pages of Notion that were written, moved, deleted or brought back; their contents as Markdown.

A payload says which page, not what stands in it; the version is the time that Notion gives the
event.

Source: Notion, "Webhooks", "Event types & delivery", "Retrieve a page as markdown".
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from livedex.connectors.webhook.presets.push_events import PayloadModel
from livedex.pipeline.errors import RejectedError, UnexpectedResponseError
from livedex.pipeline.events.json_decoder import decode_json
from livedex.pipeline.http.validation import validate_model
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.ingest.timestamps import epoch_ns, precision_ns
from livedex.pipeline.model import DocumentId
from livedex.pipeline.settings.webhook_source import WebhookSource

API = "https://api.notion.com"
HEADERS = {"Notion-Version": "2025-09-03", "Accept": "application/json"}
_WRITTEN = frozenset(
    {
        "page.created",
        "page.content_updated",
        "page.properties_updated",
        "page.moved",
        "page.undeleted",
    }
)
_GONE = "page.deleted"


class _Entity(PayloadModel):
    id: str = Field(min_length=1, max_length=200, pattern=r"^[0-9A-Za-z-]+$")
    type: Literal["page"]


class _Event(PayloadModel):
    id: str = Field(min_length=1, max_length=200)
    timestamp: AwareDatetime
    type: str
    entity: _Entity


def read(source: WebhookSource, payload: Any) -> list[ChangeRequest]:
    """The page that changed; nothing for databases, comments, and events that change no content."""
    if (
        not isinstance(payload, dict)
        or not isinstance(payload.get("type"), str)
        or payload["type"] not in _WRITTEN | {_GONE}
    ):
        return []
    event = validate_model(_Event, payload)
    gone = event.type == _GONE
    page, base = event.entity.id, (source.base_url or API).rstrip("/")
    return [
        ChangeRequest(
            DocumentId(f"{source.name}/{page}"),
            deleted=gone,
            url=None if gone else f"{base}/v1/pages/{page}/markdown",
            uri=f"https://www.notion.so/{page.replace('-', '')}",
            occurred_at_ns=epoch_ns(event.timestamp),
            precision_ns=precision_ns(event.timestamp),
            delivery_id=event.id,
            mime_type="text/markdown",
            collection=source.collection,
            changed_at=event.timestamp,
            metadata={} if gone else dict(source.metadata),
        )
    ]


def content(answer: bytes, _mime_type: str | None = None, _url: str = "") -> bytes:
    """The page as Markdown, out of what the API answers.

    Raises:
        UnexpectedResponseError: it holds none.
        RejectedError: it does not hold all of it.
    """
    try:
        body = decode_json(answer)
    except ValueError as exc:
        raise UnexpectedResponseError("Notion answered without the Markdown of the page") from exc
    if not isinstance(body, dict) or not isinstance(body.get("markdown"), str):
        raise UnexpectedResponseError("Notion answered without the Markdown of the page")
    if body.get("truncated"):
        raise RejectedError(
            "Notion answered with a part of the page: it is too large for one answer",
            reason="not_fetched",
        )
    return str(body["markdown"]).encode()
