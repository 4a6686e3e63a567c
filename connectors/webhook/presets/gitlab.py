"""Pushes to a project on GitLab: the paths that they touch, got by the repository files API where
the branch is now.

A payload does not say when GitLab took the push, so it counts from when it arrives. It names the
last 20 commits at most, and nothing of those that a forced push takes back, nor whether it was
forced: so the ends of every push are compared. That has to succeed, but where the payload names
every commit and GitLab says that the token lacks the scope to compare.

Source: GitLab, "Webhook events", push events; "Repository files API", "Get raw file from
repository"; "Repositories API", "Compare branches, tags, or commits", "List repository tree".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from pydantic import FailFast

from livedex.connectors.webhook.presets.push_events import (
    BRANCH_PREFIX,
    MARKUP,
    ApiQuery,
    Commit,
    FileUrls,
    PayloadModel,
    Push,
    changes,
    files_after,
    is_commit,
    lookup_request,
    matches_source,
    require_text,
)
from livedex.pipeline.errors import InsufficientScopeError, RejectedError, UnexpectedResponseError
from livedex.pipeline.http.validation import validate_model
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.settings.webhook_source import WebhookSource

log = logging.getLogger(__name__)

API = "https://gitlab.com/api/v4"
_PAGE, _MOST_PAGES = 100, 200
# that a payload names, the newest. Source: GitLab's documentation, "Webhook events", "Push events"
_MOST_COMMITS = 20
_MARKUP, _JSON = (".html", ".htm", ".xhtml"), (".json", ".jsonl", ".ipynb", ".map")


class _Project(PayloadModel):
    id: int
    path_with_namespace: str
    web_url: str
    default_branch: str


class _Pushed(PayloadModel):
    ref: str
    before: str = ""
    after: str
    project: _Project
    is_whole: bool = True

    @property
    def is_first(self) -> bool:
        """Whether there was nothing before."""
        return not is_commit(self.before)


class _Push(_Pushed):
    checkout_sha: str | None = None
    commits: Annotated[tuple[Commit, ...], FailFast()] = ()
    total_commits_count: int | None = None

    @property
    def names_all(self) -> bool:
        """Whether it names every commit, as far as it says."""
        count = len(self.commits)
        return (
            count > 0
            and (count < _MOST_COMMITS or count >= (self.total_commits_count or 0))
            and not self.is_first
        )


def read(source: WebhookSource, payload: Any) -> list[ChangeRequest]:
    """The files that a push touched; nothing for what is no push to the branch."""
    if not isinstance(payload, dict) or payload.get("object_kind") != "push":
        return []
    given = validate_model(_Push, payload)
    project = given.project
    if given.checkout_sha is None or not matches_source(
        source, given.ref, project.path_with_namespace, project.default_branch
    ):
        return []
    asked = _Pushed.model_validate(given.model_dump() | {"is_whole": given.names_all})
    push = _push(source, asked, given.commits)
    found = changes(source, push, files_after(given.commits))
    if not asked.before:
        return found
    return [
        *found,
        lookup_request(source, push, (asked.before, asked.after), _question(source, asked), asked),
    ]


async def listed(source: WebhookSource, content: Any, ask: ApiQuery) -> list[ChangeRequest]:
    """Every file that differs between both ends of a push.

    Raises:
        RejectedError: there are more than GitLab lists.
        UnexpectedResponseError: it does not list them now, or the token lacks the scope for it, and
        the payload did not say everything.
        InsufficientScopeError: the token may not read the repository.
    """
    pushed = _Pushed.model_validate(content)
    try:
        files = await (_tree if pushed.is_first else _compared)(source, pushed, ask)
    except InsufficientScopeError as exc:
        if not pushed.is_whole:
            raise
        log.warning(
            "source %s: a push is taken at its word, since its ends are not compared: "
            "commits that it took back are missed, if it was a forced one;"
            " token_env has to name a token of the scope read_api (%s)",
            source.name,
            exc,
        )
        return []
    return changes(source, _push(source, pushed), files)


async def _compared(source: WebhookSource, pushed: _Pushed, ask: ApiQuery) -> Mapping[str, bool]:
    said = await ask(_question(source, pushed))
    files: dict[str, bool] = {}
    try:
        if said.get("compare_timeout"):
            raise UnexpectedResponseError(
                "GitLab gave up comparing both ends of a push, so what it changed besides "
                "the files that its payload names is not known:"
                " push a change of each file that is out of date"
            )
        for one in said["diffs"]:
            files.setdefault(require_text(one["old_path"]), False)
            files[require_text(one["new_path"])] = not one["deleted_file"]
    except (AttributeError, KeyError, TypeError) as exc:
        raise UnexpectedResponseError(
            "GitLab answered with no comparison of both ends of a push"
        ) from exc
    return files


async def _tree(source: WebhookSource, pushed: _Pushed, ask: ApiQuery) -> Mapping[str, bool]:
    """Every file of a branch that is new.

    Raises:
        RejectedError: the push has more changes than one answer names.
        UnexpectedResponseError: the answer is not what the API documents.
    """
    files: dict[str, bool] = {}
    for page in range(1, _MOST_PAGES + 1):
        said = await ask(_question(source, pushed, page))
        try:
            files |= {
                require_text(one["path"]): True for one in _listed(said) if one["type"] == "blob"
            }
        except (KeyError, TypeError) as exc:
            raise UnexpectedResponseError("GitLab answered with no tree") from exc
        if len(said) < _PAGE:
            return files
    raise RejectedError(
        f"a new branch has more than {_MOST_PAGES * _PAGE} files and folders: push a change "
        "of each file that is missing",
        reason="not_listed",
    )


def _listed(said: Any) -> list[Any]:
    if not isinstance(said, list):
        raise TypeError("a list was expected")
    return said


def content(answer: bytes, mime_type: str | None, url: str = "") -> bytes:
    """The file, which is all that the API answers with; of a type of its own only where the file is
    called so.

    Raises:
        UnexpectedResponseError: it is a page to log in at, or says something else.
    """
    path = urlsplit(url).path.removesuffix("/raw").lower()
    if (mime_type in MARKUP and not path.endswith(_MARKUP)) or (
        mime_type == "application/json" and not path.endswith(_JSON)
    ):
        raise UnexpectedResponseError(
            f"GitLab answered with {mime_type} instead of the file: who asks may have to log in"
        )
    return answer


def _question(source: WebhookSource, pushed: _Pushed, page: int = 1) -> str:
    after = quote(pushed.after, safe="")
    if pushed.is_first:
        return (
            f"{_repository(source, pushed)}/tree?ref={after}&recursive=true&per_page={_PAGE}&"
            f"page={page}"
        )
    return (
        f"{_repository(source, pushed)}/compare?from={quote(pushed.before, safe='')}&to={after}&"
        "straight=true"
    )


def _repository(source: WebhookSource, pushed: _Pushed) -> str:
    return f"{(source.base_url or API).rstrip('/')}/projects/{pushed.project.id}/repository"


def _push(source: WebhookSource, pushed: _Pushed, commits: tuple[Commit, ...] = ()) -> Push:
    branch = pushed.ref.removeprefix(BRANCH_PREFIX)

    def places(path: str) -> FileUrls:
        inside = path.encode("utf-8", "surrogatepass")
        raw = f"{_repository(source, pushed)}/files/{quote(inside, safe='')}/raw?ref="
        shown = f"{pushed.project.web_url}/-/blob/{quote(branch)}/{quote(inside)}"
        return FileUrls(raw + quote(branch), raw + quote(pushed.after), shown)

    changed_at = max((commit.timestamp for commit in commits), default=None)
    return Push(None, changed_at, f"{pushed.ref} {pushed.before}..{pushed.after}", places)
