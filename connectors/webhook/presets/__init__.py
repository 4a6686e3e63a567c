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
        content: the content in what its API answers.
    """

    read: Read
    headers: Mapping[str, str]
    token: tuple[str, str] | None
    content: Callable[[bytes], bytes]


def _as_it_is(answer: bytes) -> bytes:
    return answer


SENDERS: Mapping[Preset, Sender] = {
    "github-push": Sender(github.read, github.HEADERS, ("Authorization", "Bearer {}"), _as_it_is),
    "gitlab-push": Sender(gitlab.read, {}, ("PRIVATE-TOKEN", "{}"), _as_it_is),
    "s3": Sender(s3.read, {}, None, _as_it_is),
    "confluence": Sender(confluence.read, {"Accept": "application/json"}, ("Authorization", "{}"), confluence.content),
    "notion": Sender(notion.read, notion.HEADERS, ("Authorization", "Bearer {}"), notion.content),
}
