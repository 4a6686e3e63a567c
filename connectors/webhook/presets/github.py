"""Pushes to a repository on GitHub: changed, renamed and removed files of one branch, got by the contents API.

The content is asked for at the commit that the push ended with, so it is the same however late it is got. What a forced push takes back
without a commit that says so is not in its payload.

Source: GitHub, "Webhook events and payloads", push; "REST API endpoints for repository contents".
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from connectors.webhook.answering import validated
from connectors.webhook.incoming import Incoming
from connectors.webhook.presets.pushes import BRANCH, Commit, Push, Sent, changes
from pipeline.webhook_settings import WebhookSource

log = logging.getLogger(__name__)

API = "https://api.github.com"
HEADERS = {"Accept": "application/vnd.github.raw+json", "X-GitHub-Api-Version": "2022-11-28"}
_MOST_COMMITS = 2048


class _Repository(Sent):
    full_name: str
    html_url: str
    default_branch: str
    pushed_at: int | datetime | None = None


class _Push(Sent):
    ref: str
    after: str
    deleted: bool = False
    repository: _Repository
    commits: tuple[Commit, ...] = ()
    head_commit: Commit | None = None


def read(source: WebhookSource, payload: Any) -> list[Incoming]:
    """The files that a push changed; nothing for what is no push to the branch, such as the ping of a new webhook."""
    if not isinstance(payload, dict) or not {"ref", "after", "commits"} <= payload.keys():
        return []
    push = validated(_Push, payload)
    repository = push.repository
    branch = source.branch or repository.default_branch
    if push.deleted or push.ref != BRANCH + branch or source.repository not in (None, repository.full_name):
        return []
    if len(push.commits) >= _MOST_COMMITS:
        log.warning("source %s: a push of more commits than its payload names: files of the oldest ones may be missing", source.name)

    def place(path: str) -> tuple[str, str]:
        inside = quote(path.encode("utf-8", "surrogatepass"))
        url = f"{(source.base_url or API).rstrip('/')}/repos/{quote(repository.full_name)}/contents/{inside}?ref={quote(push.after)}"
        return url, f"{repository.html_url}/blob/{quote(branch)}/{inside}"

    return changes(source, Push(push.commits, _pushed_at(push), f"{push.ref}@{push.after}", place))


def _pushed_at(push: _Push) -> datetime | None:
    """When GitHub took the push; the times of commits are the authors' own, and go back."""
    at = push.repository.pushed_at
    if isinstance(at, int):
        try:
            return datetime.fromtimestamp(at, UTC)
        except (OverflowError, OSError, ValueError):
            return None  # no time that there is: when it arrives
    if at is not None and at.tzinfo is not None:
        return at
    return push.head_commit.timestamp if push.head_commit else None
