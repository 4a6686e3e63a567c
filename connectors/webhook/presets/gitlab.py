"""Pushes to a project on GitLab: changed, renamed and removed files of one branch, got by the repository files API.

A payload does not say when GitLab took the push, so the latest of its commits orders it: a push of older commits than those of the push
before it, such as a merge of what lay for long, loses where both touch a file. It names the last 20 commits at most.

Source: GitLab, "Webhook events", push events; "Repository files API", "Get raw file from repository".
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

from connectors.webhook.answering import validated
from connectors.webhook.incoming import Incoming
from connectors.webhook.presets.pushes import BRANCH, Commit, Push, Sent, changes
from pipeline.webhook_settings import WebhookSource

log = logging.getLogger(__name__)

API = "https://gitlab.com/api/v4"


class _Project(Sent):
    id: int
    path_with_namespace: str
    web_url: str
    default_branch: str


class _Push(Sent):
    ref: str
    after: str
    checkout_sha: str | None = None
    project: _Project
    commits: tuple[Commit, ...] = ()
    total_commits_count: int = 0


def read(source: WebhookSource, payload: Any) -> list[Incoming]:
    """The files that a push changed; nothing for what is no push to the branch."""
    if not isinstance(payload, dict) or payload.get("object_kind") != "push":
        return []
    push = validated(_Push, payload)
    project = push.project
    branch = source.branch or project.default_branch
    if push.checkout_sha is None or push.ref != BRANCH + branch or source.repository not in (None, project.path_with_namespace):
        return []
    if push.total_commits_count > len(push.commits):
        log.warning(
            "source %s: a push of %d commits, of which its payload names %d: files of the others may be missing",
            source.name, push.total_commits_count, len(push.commits),
        )  # fmt: skip

    def place(path: str) -> tuple[str, str]:
        inside = path.encode("utf-8", "surrogatepass")
        api = (source.base_url or API).rstrip("/")
        url = f"{api}/projects/{project.id}/repository/files/{quote(inside, safe='')}/raw?ref={quote(push.after)}"
        return url, f"{project.web_url}/-/blob/{quote(branch)}/{quote(inside)}"

    at = max((commit.timestamp for commit in push.commits), default=None)
    return changes(source, Push(push.commits, at, f"{push.ref}@{push.after}", place))
