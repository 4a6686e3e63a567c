"""Senders that are known here: what their payloads mean, and how their contents are got and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from connectors.webhook.incoming import Incoming
from connectors.webhook.presets import confluence, github, gitlab, notion, s3
from pipeline.webhook_settings import Preset, WebhookSource

Read: TypeAlias = Callable[[WebhookSource, Any], list[Incoming]]


@dataclass(frozen=True, slots=True)
class Sender:
    """A system that is known.

    Attributes:
        read: a payload as changes; raises RequestValidationError where it is none of the sender's.
        headers: of requests to its API, without the credential.
        token: the header of the credential, with `{}` for the token; None: nothing is asked for one.
        api: where its API is, for who does not run one of their own; None: everybody does.
        typed: whether the API says of what type a content is.
        content: the content in what its API answers, raises RejectedError where it is not there; None: the answer is the content.
    """

    read: Read
    headers: Mapping[str, str]
    token: tuple[str, str] | None
    api: str | None = None
    typed: bool = False
    content: Callable[[bytes], bytes] | None = None


SENDERS: Mapping[Preset, Sender] = {
    "github-push": Sender(github.read, github.HEADERS, ("Authorization", "Bearer {}"), github.API),
    "gitlab-push": Sender(gitlab.read, {}, ("PRIVATE-TOKEN", "{}"), gitlab.API),
    "s3": Sender(s3.read, {}, None, typed=True),
    "confluence": Sender(confluence.read, {"Accept": "application/json"}, ("Authorization", "{}"), content=confluence.content),
    "notion": Sender(notion.read, notion.HEADERS, ("Authorization", "Bearer {}"), notion.API, content=notion.content),
}
