"""What a push changes: every path that it touched, to be looked at where its branch is now.

A push says which paths to look at, and what is found there decides: the file as the branch has it,
or that it has none. So the deliveries may come in any order, late and again: whichever is looked at
last finds what the branch holds, and what a version of a document shows is never older than the
push that it stands for. A file that the branch lacks is deleted only if who asks is shown the
commit that had it, or the one that took it
away: a repository that is hidden answers the same as one without the file.

What a payload leaves out is looked up: as an event of its own, whose content is the push without
its commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Protocol

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, FailFast

from livedex.connectors.webhook.presets.path_filter import PathFilter
from livedex.pipeline.ingest.change_request import MAX_ID_BYTES, ChangeRequest
from livedex.pipeline.ingest.timestamps import epoch_ns
from livedex.pipeline.model import DocumentId
from livedex.pipeline.settings.webhook_source import WebhookSource

BRANCH_PREFIX = "refs/heads/"
_SECOND_NS = 1_000_000_000
_NO_COMMIT = frozenset("0")
MARKUP = frozenset({"text/html", "application/xhtml+xml"})
_NO_NAMES = frozenset({"", ".", ".."})


class PayloadModel(BaseModel):
    """A part of a payload of another system, of which only some fields matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Names = Annotated[
    tuple[str, ...], FailFast(), BeforeValidator(lambda given: () if given is None else given)
]


class Commit(PayloadModel):
    """A commit of a push; a rename removes the old name and adds the new one."""

    timestamp: AwareDatetime
    added: Names = ()
    modified: Names = ()
    removed: Names = ()


class ApiQuery(Protocol):
    """Asks the API of the system that pushed."""

    async def __call__(self, url: str) -> Any:
        """The JSON that it answers.

        Raises:
            ContentNotFoundError, RetryableError: as `Fetcher.fetch`.
            UnexpectedResponseError: it is not for us, or no JSON.
            RejectedError: it is too large.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileUrls:
    """Where a path is.

    Attributes:
        now: its content, where the branch is now.
        then: its content, at the commit that the push ended with.
        shown: where people see it.
    """

    now: str
    then: str
    shown: str


@dataclass(frozen=True, slots=True)
class Push:
    """A push.

    Attributes:
        at: when the system took it, known to the second, and no earlier than it was; None: it
            counts from when it arrives.
        changed_at: when the last of its commits was made, where that is all that is said.
        name: of the push: the same for what comes again.
        places: of a path.
    """

    at: datetime | None
    changed_at: datetime | None
    name: str
    places: Callable[[str], FileUrls]


def matches_source(source: WebhookSource, ref: str, repository: str, default_branch: str) -> bool:
    """Whether a source wants a push to this branch of this repository; forges tell no names of
    repositories apart by their case.
    """
    if source.repository is not None and source.repository.casefold() != repository.casefold():
        return False
    return ref == BRANCH_PREFIX + (source.branch or default_branch)


def is_commit(name: str) -> bool:
    """Whether the end of a push is one: a branch that is new began with none."""
    return bool(name) and set(name) != _NO_COMMIT


def require_text(said: Any) -> str:
    """A text that an API has to say.

    Raises:
        TypeError: it says something else.
    """
    if not isinstance(said, str):
        raise TypeError(f"a text was expected, and not a {type(said).__name__}")
    return said


def files_after(commits: Iterable[Commit]) -> Mapping[str, bool]:
    """Every path that commits touch, and whether the file is there after the last of them."""
    there: dict[str, bool] = {}
    for commit in commits:
        there |= dict.fromkeys(commit.removed, False)
        there |= dict.fromkeys((*commit.added, *commit.modified), True)
    return there


def changes(source: WebhookSource, push: Push, files: Mapping[str, bool]) -> list[ChangeRequest]:
    """A change for each file that is a document.

    Args:
        source: the source, as the settings describe it.
        push: the push.
        files: paths, and whether the file was there at the end of the push.
    """
    paths = PathFilter(source)
    found = []
    for path, there in files.items():
        document_id = f"{source.name}/{path}"
        if (
            not paths.has(path)
            or not _may_be(path)
            or len(document_id.encode("utf-8", "surrogatepass")) > MAX_ID_BYTES
        ):
            continue
        at = push.places(path)
        found.append(
            ChangeRequest(
                DocumentId(document_id),
                deleted=not there,
                url=at.now,
                gone_if_missing=True,
                seen_at=at.then if there else None,
                uri=at.shown,
                metadata=dict(source.metadata),
                **_of_push(source, push),
            )
        )
    return found


def _may_be(path: str) -> bool:
    """Whether a repository can hold it: others would lead elsewhere when they are asked for."""
    return "\x00" not in path and not _NO_NAMES.intersection(path.split("/"))


def lookup_request(
    source: WebhookSource, push: Push, ends: tuple[str, str], url: str, asked: PayloadModel
) -> ChangeRequest:
    """What has to be looked up of a push. Its event is called as no file can be, and unlike those
    of other pushes: a topic that is compacted keeps each.

    Args:
        source: the source, as the settings describe it.
        push: the push.
        ends: the commits that the push began and ended with.
        url: of the first question.
        asked: the push, without its commits.
    """
    before, after = ("".join(c for c in commit if c.isalnum())[:12] for commit in ends)
    return ChangeRequest(
        DocumentId(f"{source.name}//{before}..{after}"),
        listing=True,
        url=url,
        content=asked.model_dump_json().encode(),
        **_of_push(source, push),
    )


def _of_push(source: WebhookSource, push: Push) -> dict[str, Any]:
    at_ns = None if push.at is None else epoch_ns(push.at.replace(microsecond=0))
    return {
        "occurred_at_ns": at_ns,
        "precision_ns": _SECOND_NS,
        "delivery_id": push.name,
        "collection": source.collection,
        "changed_at": push.at or push.changed_at,
    }
