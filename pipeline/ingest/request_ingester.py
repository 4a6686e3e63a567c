"""From changes that somebody sent to changes that nobody can lose: a version for each, then the
broker, then a token for each.

Invariants: a version is given before anything is published, and a delivery that comes again gets
the version that it got before; so who tries again after an error, or sends a thing twice, changes
nothing. `accept` answers within `ACCEPT_S`, whatever the broker does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.event import Changed
from livedex.pipeline.ingest.change_request import ChangeRequest
from livedex.pipeline.ingest.ingester import Change, ChangeSink
from livedex.pipeline.ingest.sync_token import make_sync_token
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.stages.remote_content import ContentFetcher
from livedex.pipeline.store.documents.version_allocator import (
    VersionAllocator,
    VersionRequest,
    delivery_key,
    range_from,
)

ACCEPT_TIMEOUT_S = 8.0
"""Less than the 10 seconds after which GitHub, GitLab and others give up on an answer."""

_AHEAD_NS = 24 * 3600 * 1_000_000_000
_SHARE_BYTES = 65_536
_MOST_TOGETHER = 256


@dataclass(frozen=True, slots=True)
class AcceptedChange:
    """A change that was accepted.

    Attributes:
        token: for `GET /v1/sync/{token}` and `after`.
    """

    document_id: DocumentId
    version: int
    token: str


@dataclass(frozen=True, slots=True)
class _ChangeBatch:
    """What is accepted as a whole."""

    tenant_id: TenantId
    sender: str
    source: str
    incoming: Sequence[ChangeRequest]

    @property
    def size(self) -> int:
        """How much of a batch it takes."""
        return (
            len(self.incoming)
            + sum(len(item.content or b"") for item in self.incoming) // _SHARE_BYTES
        )


class RequestIngester:
    """Accepts what was sent. What is sent at the same time goes to the database and to the broker
    together.

    Args:
        fetcher: gets the content of changes that only say where it is; None: nothing does.
    """

    def __init__(
        self, versions: VersionAllocator, intake: ChangeSink, fetcher: ContentFetcher | None = None
    ) -> None:
        self._versions = versions
        self._intake = intake
        self._together: MicroBatcher[_ChangeBatch, list[AcceptedChange]] = MicroBatcher(
            self._accept,
            group=lambda request: request.tenant_id,
            size=lambda request: request.size,
            max_size=_MOST_TOGETHER,
            max_concurrent=2,
        )
        self.fetcher = fetcher

    async def accept(
        self,
        tenant_id: TenantId,
        sender: str,
        incoming: Sequence[ChangeRequest],
        *,
        source: str = "",
    ) -> list[AcceptedChange]:
        """Accept changes as a whole.

        Args:
            sender: whose ids the `delivery_id`s are.
            source: the source that the documents belong to.

        Returns:
            What was accepted, in the same order; nothing for what has to be looked up first, since
            no document has changed by that.

        Raises:
            OutageError, RetryableError: not now; nothing of it counts, try all of it again.
            RejectedError, ConflictError: never.
        """
        if not incoming:
            return []
        async with _accept_deadline(len(incoming)):
            return await self._together(_ChangeBatch(tenant_id, sender, source, incoming))

    async def patch(
        self, tenant_id: TenantId, document_id: DocumentId, patch: Mapping[str, Any]
    ) -> AcceptedChange:
        """Accept a change of what a document carries besides its content: a new version, built on
        the newest that was accepted.

        Args:
            patch: see `livedex.pipeline.events.merge_patch`.

        Raises:
            NotFoundError: there is no such document.
            OutageError, RetryableError, ConflictError: as `accept`.
        """
        async with _accept_deadline(1):
            given = await self._versions.allocate_patch(tenant_id, document_id)
            data = Changed(
                tenant_id=tenant_id,
                document_id=document_id,
                version=given.version,
                changed_at=datetime.now(UTC),
                patch=dict(patch),
                builds_on=given.builds_on,
                held=given.held,
            )
            await self._intake.accept([Change(data)])
            await self._versions.accepted(tenant_id, {document_id: given.version})
        return _accepted(tenant_id, document_id, given.version)

    async def _accept(self, requests: Sequence[_ChangeBatch]) -> list[list[AcceptedChange]]:
        """Accept requests of one tenant."""
        tenant_id, now_ns = requests[0].tenant_id, time.time_ns()
        items = [(request, item) for request in requests for item in request.incoming]
        async with _accept_deadline(len(items)):
            versions = await self._versions.give(
                tenant_id,
                [_version_request(request.sender, item, now_ns) for request, item in items],
            )
            await self._intake.accept(
                [
                    Change(
                        _changed(
                            tenant_id,
                            request.source,
                            item,
                            version,
                            can_look=self.fetcher is not None,
                        ),
                        item.content,
                    )
                    for (request, item), version in zip(items, versions, strict=True)
                ]
            )
            newest: dict[DocumentId, int] = {}
            for (_, item), version in zip(items, versions, strict=True):
                newest[item.document_id] = max(version, newest.get(item.document_id, version))
            await self._versions.accepted(tenant_id, newest)
        given = iter(versions)
        accepted = [
            [
                (item, _accepted(tenant_id, item.document_id, next(given)))
                for item in request.incoming
            ]
            for request in requests
        ]
        return [[done for item, done in of_request if not item.listing] for of_request in accepted]


@asynccontextmanager
async def _accept_deadline(changes: int) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ACCEPT_TIMEOUT_S):
            yield
    except TimeoutError as exc:
        raise OutageError(
            "broker", f"{changes} changes: not held within {ACCEPT_TIMEOUT_S:.0f} s"
        ) from exc


def _accepted(tenant_id: TenantId, document_id: DocumentId, version: int) -> AcceptedChange:
    return AcceptedChange(document_id, version, make_sync_token(tenant_id, document_id, version))


def _version_request(sender: str, item: ChangeRequest, now_ns: int) -> VersionRequest:
    if item.version is not None:
        return VersionRequest(item.document_id, item.version, deletes=item.deleted)
    least, room = now_ns, range_from(now_ns)
    if (
        item.occurred_at_ns is not None and item.occurred_at_ns < now_ns + _AHEAD_NS
    ):  # a clock that is more wrong would keep everything after it from being seen
        least, room = item.occurred_at_ns, item.precision_ns
    key = (
        None
        if item.delivery_id is None
        else delivery_key(sender, item.delivery_id, item.document_id)
    )
    return VersionRequest(item.document_id, least, room, key, deletes=item.deleted)


def _changed(
    tenant_id: TenantId, source: str, item: ChangeRequest, version: int, *, can_look: bool
) -> Changed:
    deleted = item.deleted and (item.url is None or not can_look)
    return Changed(
        tenant_id=tenant_id,
        document_id=item.document_id,
        version=version,
        deleted=deleted,
        url=None if deleted else item.url,
        gone_if_missing=item.gone_if_missing and not deleted,
        seen_at=item.seen_at,
        listing=item.listing,
        mime_type=item.mime_type,
        collection=item.collection,
        source=source,
        title=item.title,
        uri=item.uri,
        metadata=item.metadata,
        changed_at=item.changed_at or datetime.now(UTC),
        acl=item.acl,
    )
