"""What a push changes: the files of its commits, as they are after the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict

from connectors.webhook.clock import nanoseconds
from connectors.webhook.incoming import MAX_ID_BYTES, Incoming
from connectors.webhook.presets.paths import Paths
from pipeline.model import DocumentId
from pipeline.webhook_settings import WebhookSource

BRANCH = "refs/heads/"
_SECOND_NS = 1_000_000_000


class Sent(BaseModel):
    """A part of a payload of another system, of which only some fields matter here."""

    model_config = ConfigDict(frozen=True, extra="ignore")


Names = Annotated[tuple[str, ...], BeforeValidator(lambda given: () if given is None else given)]


class Commit(Sent):
    """A commit of a push; a renamed file is removed under its old name and added under its new one."""

    timestamp: AwareDatetime
    added: Names = ()
    modified: Names = ()
    removed: Names = ()


@dataclass(frozen=True, slots=True)
class Push:
    """A push.

    Attributes:
        commits: oldest first.
        at: when, known to the second; None: when it arrives.
        name: of the push: the same for what comes again.
        place: where the content of a path is got, and where people see it.
    """

    commits: tuple[Commit, ...]
    at: datetime | None
    name: str
    place: Callable[[str], tuple[str, str]]


def files_after(commits: Iterable[Commit]) -> Mapping[str, bool]:
    """Every path that commits touch, and whether the file is there after the last of them."""
    there: dict[str, bool] = {}
    for commit in commits:
        there |= dict.fromkeys(commit.removed, False)
        there |= dict.fromkeys((*commit.added, *commit.modified), True)
    return there


def changes(source: WebhookSource, push: Push) -> list[Incoming]:
    """A change for each file that is a document."""
    paths = Paths(source)
    at_ns = None if push.at is None else nanoseconds(push.at.replace(microsecond=0))
    found = []
    for path, there in files_after(push.commits).items():
        document_id = f"{source.name}/{path}"
        if not paths.has(path) or "\x00" in path or len(document_id.encode("utf-8", "surrogatepass")) > MAX_ID_BYTES:
            continue
        change = Incoming(
            DocumentId(document_id), deleted=not there, at_ns=at_ns, exact_ns=_SECOND_NS, delivery_id=push.name, collection=source.collection,
            changed_at=push.at,
        )  # fmt: skip
        if there:
            url, uri = push.place(path)
            change = replace(change, url=url, uri=uri, metadata=dict(source.metadata))
        found.append(change)
    return found
