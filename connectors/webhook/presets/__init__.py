"""Known webhook senders: how to read their payloads and how to fetch their content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from livedex.connectors.webhook.presets import confluence, github, gitlab, notion, s3
from livedex.connectors.webhook.presets.push_events import ApiQuery
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.settings.webhook_source import Preset, WebhookSource

Read: TypeAlias = Callable[[WebhookSource, Any], list[ChangeRequest]]
LookUp: TypeAlias = Callable[[WebhookSource, Any, ApiQuery], Awaitable[list[ChangeRequest]]]


@dataclass(frozen=True, slots=True)
class SourcePreset:
    """A system that is known.

    Attributes:
        read: a payload as changes; raises RequestValidationError where it is none of the sender's.
        headers: of requests to its API, without the credential.
        token: the header of the credential, with `{}` for the token; None: nothing is asked for
            one.
        api: where its API is, for who does not run one of their own; None: everybody does.
        typed: whether the API says of what type a content is.
        content: the content in what its API answers to a URL, raises UnexpectedResponseError,
            RejectedError
            or ContentNotFoundError where it is not there; None:
            the answer is the content.
        stays: whether its API answers itself: what another host says after a redirect is a page to
            log in at.
        is_wrapped: whether what its API answers is larger than the content.
        listed: the changes that have to be looked up, by what the event says of them; None: there
            are none.
        listing_headers: of the requests for these.
        payloads_repeat: whether what happens twice may be told by the same payload: then the id of
            the
            delivery says which one it is.
    """

    read: Read
    headers: Mapping[str, str]
    token: tuple[str, str] | None
    api: str | None = None
    typed: bool = False
    content: Callable[[bytes, str | None, str], bytes] | None = None
    stays: bool = True
    is_wrapped: bool = False
    listed: LookUp | None = None
    listing_headers: Mapping[str, str] = field(default_factory=dict)
    payloads_repeat: bool = False


PRESETS: Mapping[Preset, SourcePreset] = {
    "github-push": SourcePreset(
        github.read,
        github.HEADERS,
        ("Authorization", "Bearer {}"),
        github.API,
        content=github.content,
        listed=github.listed,
        listing_headers=github.LISTING,
    ),
    "gitlab-push": SourcePreset(
        gitlab.read,
        {},
        ("PRIVATE-TOKEN", "{}"),
        gitlab.API,
        content=gitlab.content,
        listed=gitlab.listed,
        payloads_repeat=True,
    ),
    "s3": SourcePreset(s3.read, {}, None, typed=True, stays=False),
    "confluence": SourcePreset(
        confluence.read,
        {"Accept": "application/json"},
        ("Authorization", "{}"),
        content=confluence.content,
        is_wrapped=True,
    ),
    "notion": SourcePreset(
        notion.read,
        notion.HEADERS,
        ("Authorization", "Bearer {}"),
        notion.API,
        content=notion.content,
        is_wrapped=True,
    ),
}
