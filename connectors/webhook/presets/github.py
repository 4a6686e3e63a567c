"""Pushes to a repository on GitHub: the paths that they touch, got by the contents API where the
branch is now.

A forced push takes back commits that its payload does not name, a new branch begins with files that
it does not name, and there are never more than
2,048 commits in one: then the trees of both ends are compared, path by path.

Source: GitHub, "Webhook events and payloads", push; "REST API endpoints for repository contents";
"REST API endpoints for Git trees".
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote

import orjson
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
from livedex.pipeline.errors import ContentNotFoundError, RejectedError, UnexpectedResponseError
from livedex.pipeline.events.json_decoder import decode_json
from livedex.pipeline.http.validation import validate_model
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.settings.webhook_source import WebhookSource

API = "https://api.github.com"
HEADERS = {"Accept": "application/vnd.github.raw+json", "X-GitHub-Api-Version": "2022-11-28"}
LISTING = HEADERS | {"Accept": "application/vnd.github+json"}
_MOST_COMMITS = 2048


class _Repository(PayloadModel):
    full_name: str
    html_url: str
    default_branch: str
    pushed_at: int | datetime | None = None


class _Pushed(PayloadModel):
    ref: str
    before: str = ""
    after: str
    created: bool = False
    deleted: bool = False
    forced: bool = False
    repository: _Repository


class _Push(_Pushed):
    commits: Annotated[tuple[Commit, ...], FailFast()] = ()

    @property
    def is_whole(self) -> bool:
        """Whether its commits say everything that it changed."""
        return not (self.created or self.forced) and len(self.commits) < _MOST_COMMITS


def read(source: WebhookSource, payload: Any) -> list[ChangeRequest]:
    """The files that a push touched; nothing for what is no push to the branch, such as the ping
    of a new webhook.
    """
    if not isinstance(payload, dict) or not {"ref", "after", "commits"} <= payload.keys():
        return []
    given = validate_model(_Push, payload)
    if given.deleted or not matches_source(
        source, given.ref, given.repository.full_name, given.repository.default_branch
    ):
        return []
    push = _push(source, given)
    found = changes(source, push, files_after(given.commits))
    if not given.is_whole:
        asked = _Pushed.model_validate(given.model_dump())
        found.append(
            lookup_request(
                source, push, (given.before, given.after), _tree(source, asked, given.after), asked
            )
        )
    return found


async def listed(source: WebhookSource, content: Any, ask: ApiQuery) -> list[ChangeRequest]:
    """Every file that differs between both ends of a push.

    Raises:
        RejectedError: there are more than GitHub lists.
        UnexpectedResponseError: it does not list them now.
    """
    pushed = _Pushed.model_validate(content)
    before: Mapping[str, str] = {}
    if is_commit(pushed.before) and not pushed.created:
        before = await _blobs(source, pushed, pushed.before, ask)
    after = await _blobs(source, pushed, pushed.after, ask)
    differing = {
        path: path in after
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }
    return changes(source, _push(source, pushed), dict(sorted(differing.items())))


def content(answer: bytes, mime_type: str | None, _url: str = "") -> bytes:
    """The file, out of what the API answers.

    Files come as `application/vnd.github.raw`, whatever stands in them; so HTML is a page to log in
    at, and JSON says what stands there.

    Raises:
        ContentNotFoundError: no file stands there, but a folder or another repository.
        UnexpectedResponseError: it is neither.
    """
    if mime_type in MARKUP:
        raise UnexpectedResponseError(
            "GitHub answered with a web page instead of the file: who asks may have to log in"
        )
    if mime_type != "application/json":
        return answer
    try:
        said = decode_json(answer)
    except orjson.JSONDecodeError as exc:
        raise UnexpectedResponseError("GitHub answered with JSON that is none") from exc
    if isinstance(said, list) and said and all(map(_is_entry, said)):
        raise ContentNotFoundError("GitHub answered with a folder: there is no such file")
    if not _is_entry(said):
        raise UnexpectedResponseError("GitHub answered with JSON that is no file")
    if said["type"] != "file":
        raise ContentNotFoundError(
            f"GitHub answered with a {str(said['type'])[:20]}: there is no such file"
        )
    if said.get("encoding") != "base64" or not isinstance(said.get("content"), str):
        raise UnexpectedResponseError("GitHub answered with a file without its content")
    try:
        return base64.b64decode(said["content"])
    except ValueError as exc:
        raise UnexpectedResponseError("GitHub answered with a file that is no Base64") from exc


def _is_entry(said: Any) -> bool:
    return isinstance(said, dict) and {"path", "sha", "type"} <= said.keys()


async def _blobs(
    source: WebhookSource, pushed: _Pushed, commit: str, ask: ApiQuery
) -> Mapping[str, str]:
    """The files of a commit, each with the name of its content.

    Raises:
        RejectedError: the push has more changes than one answer names.
        UnexpectedResponseError: the answer is not what the API documents.
    """
    said = await ask(_tree(source, pushed, commit))
    try:
        if said.get("truncated"):
            raise RejectedError(
                "the repository has more files than GitHub lists at once, so what this push "
                "changed besides the files that it names is not known:"
                " push a change of each file that is out of date, or make it smaller",
                reason="not_listed",
            )
        return {
            require_text(entry["path"]): f"{entry['mode']} {entry['sha']}"
            for entry in said["tree"]
            if entry["type"] == "blob"
        }
    except (AttributeError, KeyError, TypeError) as exc:
        raise UnexpectedResponseError("GitHub answered with no tree") from exc


def _tree(source: WebhookSource, pushed: _Pushed, commit: str) -> str:
    return f"{_repository(source, pushed)}/git/trees/{quote(commit, safe='')}?recursive=1"


def _repository(source: WebhookSource, pushed: _Pushed) -> str:
    return f"{(source.base_url or API).rstrip('/')}/repos/{quote(pushed.repository.full_name)}"


def _push(source: WebhookSource, pushed: _Pushed) -> Push:
    branch = pushed.ref.removeprefix(BRANCH_PREFIX)

    def places(path: str) -> FileUrls:
        inside = quote(path.encode("utf-8", "surrogatepass"))
        content = f"{_repository(source, pushed)}/contents/{inside}?ref="
        shown = f"{pushed.repository.html_url}/blob/{quote(branch)}/{inside}"
        return FileUrls(content + quote(branch), content + quote(pushed.after), shown)

    return Push(
        _pushed_at(pushed),
        None,
        f"{pushed.ref} {pushed.before}..{pushed.after} {pushed.repository.pushed_at}",
        places,
    )


def _pushed_at(pushed: _Pushed) -> datetime | None:
    """When GitHub took the push, or another one after it; the times of commits are the authors'
    own, and go back.
    """
    at = pushed.repository.pushed_at
    if isinstance(at, int):
        try:
            return datetime.fromtimestamp(at, UTC)
        except (OverflowError, OSError, ValueError):
            return None  # no time that there is: when it arrives
    return at if at is not None and at.tzinfo is not None else None
