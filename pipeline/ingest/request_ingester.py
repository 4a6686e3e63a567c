"""Ingestion of requests: allocate a version for each change, publish it, and return a sync token.

Invariants: a version is allocated before its event is published, and a repeated delivery gets the
same version. So retries and duplicates have no effect. `accept` returns within `ACCEPT_TIMEOUT_S`.
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
"""Less than the timeout of webhook senders such as GitHub and GitLab, which is 10 seconds."""

_AHEAD_NS = 24 * 3600 * 1_000_000_000
_SHARE_BYTES = 65_536
_MOST_TOGETHER = 256


@dataclass(frozen=True, slots=True)
class AcceptedChange:
    """An accepted change.

    Attributes:
        document_id: of the document.
        version: of the change.
        token: for `GET /v1/sync/{token}` and `after`.
    """

    document_id: DocumentId
    version: int
    token: str


@dataclass(frozen=True, slots=True)
class _ChangeBatch:
    """Changes that are accepted together."""

    tenant_id: TenantId
    sender: str
    source: str
    incoming: Sequence[ChangeRequest]

    @property
    def size(self) -> int:
        """Return its share of a batch's maximum size."""
        return (
            len(self.incoming)
            + sum(len(item.content or b"") for item in self.incoming) // _SHARE_BYTES
        )


class RequestIngester:
    """Accepts changes of requests. Concurrent requests share database and broker calls.

    Args:
        versions: allocates versions.
        intake: publishes changes.
        fetcher: fetches content by URL; None: content is not fetched.
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
        """Accept all changes or none.

        Args:
            tenant_id: owner of the documents.
            sender: name of the sender, which scopes the `delivery_id`s.
            incoming: in order.
            source: of the documents.

        Returns:
            The accepted changes in order, without those that only announce a listing.

        Raises:
            OutageError: a dependency is unavailable: retry all changes.
            RetryableError: a retry of all changes can succeed.
            RejectedError: the changes are invalid.
            ConflictError: a document has the greatest possible version.
        """
        if not incoming:
            return []
        async with _accept_deadline(len(incoming)):
            return await self._together(_ChangeBatch(tenant_id, sender, source, incoming))

    async def patch(
        self, tenant_id: TenantId, document_id: DocumentId, patch: Mapping[str, Any]
    ) -> AcceptedChange:
        """Accept changed attributes of a document as a new version, based on the newest accepted
        one.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            patch: see `livedex.pipeline.events.merge_patch`.

        Returns:
            The accepted change.

        Raises:
            NotFoundError: the document does not exist.
            OutageError: see `accept`, also for the errors below.
            RetryableError: a retry can succeed.
            ConflictError: the document has the greatest possible version.
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
            "broker", f"{changes} changes: not published within {ACCEPT_TIMEOUT_S:.0f} s"
        ) from exc


def _accepted(tenant_id: TenantId, document_id: DocumentId, version: int) -> AcceptedChange:
    return AcceptedChange(document_id, version, make_sync_token(tenant_id, document_id, version))


def _version_request(sender: str, item: ChangeRequest, now_ns: int) -> VersionRequest:
    if item.version is not None:
        return VersionRequest(item.document_id, item.version, deletes=item.deleted)
    least, room = now_ns, range_from(now_ns)
    if (
        item.occurred_at_ns is not None and item.occurred_at_ns < now_ns + _AHEAD_NS
    ):  # ignore a wrong clock: a version far in the future would block all later changes
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
