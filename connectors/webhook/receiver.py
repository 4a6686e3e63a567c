"""From changes that somebody sent to changes that nobody can lose: a version for each, then the broker, then a token for each.

Invariants: a version is given before anything is published, and a delivery that comes again gets the version that it got before; so who
tries again after an error, or sends a thing twice, changes nothing. `accept` answers within `ACCEPT_S`, whatever the broker does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from connectors.webhook.incoming import Incoming
from pipeline.api.tokens import make_token
from pipeline.errors import OutageError
from pipeline.events import Changed
from pipeline.intake import Change
from pipeline.model import DocumentId, TenantId
from pipeline.store.versions import Versions, Wanted, delivery_key, from_now_on

ACCEPT_S = 8.0
"""Less than the 10 seconds after which GitHub, GitLab and others give up on an answer."""


class Accepting(Protocol):
    """Takes changes; `pipeline.intake.Intake` does."""

    async def accept(self, changes: Sequence[Change]) -> None:
        """Returns once nothing of them can be lost.

        Raises:
            OutageError: try all of them again.
        """
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """A change that was accepted.

    Attributes:
        token: for `GET /v1/sync/{token}` and `after`.
    """

    document_id: DocumentId
    version: int
    token: str


class Receiver:
    """Accepts what was sent.

    Args:
        can_fetch: whether something gets the content of changes that only say where it is.
    """

    def __init__(self, versions: Versions, intake: Accepting, *, can_fetch: bool = False) -> None:
        self._versions = versions
        self._intake = intake
        self.can_fetch = can_fetch

    async def accept(self, tenant_id: TenantId, sender: str, incoming: Sequence[Incoming], *, source: str = "") -> list[Accepted]:
        """Accept changes as a whole.

        Args:
            sender: whose ids the `delivery_id`s are.
            source: the source that the documents belong to.

        Returns:
            What was accepted, in the same order.

        Raises:
            OutageError, RetryableError: not now; nothing of it counts, try all of it again.
            RejectedError: never.
        """
        if not incoming:
            return []
        now_ns = time.time_ns()
        try:
            async with asyncio.timeout(ACCEPT_S):
                versions = await self._versions.give(tenant_id, [_wanted(sender, item, now_ns) for item in incoming])
                await self._intake.accept([
                    Change(_changed(tenant_id, source, item, version), item.content)
                    for item, version in zip(incoming, versions, strict=True)
                ])  # fmt: skip
        except TimeoutError as exc:
            raise OutageError("broker", f"{len(incoming)} changes: not held within {ACCEPT_S:.0f} s") from exc
        return [
            Accepted(item.document_id, version, make_token(tenant_id, item.document_id, version))
            for item, version in zip(incoming, versions, strict=True)
        ]


def _wanted(sender: str, item: Incoming, now_ns: int) -> Wanted:
    if item.version is not None:
        return Wanted(item.document_id, item.version)
    least, room = (now_ns, from_now_on(now_ns)) if item.at_ns is None else (item.at_ns, item.exact_ns)
    key = None if item.delivery_id is None else delivery_key(sender, item.delivery_id, item.document_id)
    return Wanted(item.document_id, least, room, key)


def _changed(tenant_id: TenantId, source: str, item: Incoming, version: int) -> Changed:
    return Changed(
        tenant_id=tenant_id, document_id=item.document_id, version=version, deleted=item.deleted, url=item.url, mime_type=item.mime_type,
        collection=item.collection, source=source, title=item.title, uri=item.uri, metadata=item.metadata,
        changed_at=item.changed_at or datetime.now(UTC),
    )  # fmt: skip
