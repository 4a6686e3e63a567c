"""Ingestion of changes: store large content in the blob store, publish the event, apply ACLs."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from livedex.pipeline.errors import OutageError, RetryableError, TenantDeletedError
from livedex.pipeline.events.event import INLINE_LIMIT_BYTES, Changed, Event, change_event
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.store.drafts import AccessUpdate
from livedex.pipeline.store.protocol import AccessUpdater, BlobStore


@dataclass(frozen=True, slots=True)
class Change:
    """A change from a connector.

    Attributes:
        data: of the event, without `content`, `blob` and `size_bytes`.
        content: the bytes; None for a delete or an unreadable document.
    """

    data: Changed
    content: bytes | None = None


class ChangePublisher(Protocol):
    """Publishes change events to the topic `livedex.changed`."""

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        """Publish events, and return when the broker has stored all of them.

        Args:
            events: in order.

        Raises:
            OutageError: the broker is unavailable; some events may be stored.
        """
        ...


class ChangeSink(Protocol):
    """Accepts changes."""

    async def accept(self, changes: Sequence[Change]) -> None:
        """Accept changes, and return when they are durable.

        Args:
            changes: in order.

        Raises:
            OutageError: retry all changes; repetition is harmless.
        """
        ...


class UnavailableIngester:
    """A `ChangeSink` of a process without a broker."""

    async def accept(self, changes: Sequence[Change]) -> None:
        """Reject all changes.

        Raises:
            OutageError: always.
        """
        raise OutageError("broker", f"{len(changes)} changes: not connected")


class DeferredIngester:
    """A `ChangeSink` that exists before the broker is connected."""

    def __init__(self) -> None:
        self._accepting: ChangeSink = UnavailableIngester()

    def connect(self, accepting: ChangeSink) -> None:
        """Pass changes to another sink from now on."""
        self._accepting = accepting

    async def accept(self, changes: Sequence[Change]) -> None:
        """Pass on changes; raise OutageError before `connect`."""
        await self._accepting.accept(changes)


class Ingester:
    """Accepts changes: when `accept` returns, they are durable, and their ACLs and deletes are in
    effect.

    Args:
        publisher: publishes events.
        blobs: stores content above the inline limit.
        guard: applies ACLs and deletes before the changes are processed.
    """

    def __init__(self, publisher: ChangePublisher, blobs: BlobStore, guard: AccessUpdater) -> None:
        self._publisher = publisher
        self._blobs = blobs
        self._guard = guard

    async def accept(self, changes: Sequence[Change]) -> None:
        """Publish changes, then apply their ACLs and deletes. The order matters: an ACL must not
        apply to a change that was never published.

        Args:
            changes: in order.

        Raises:
            OutageError: the broker, the blob store or the database is unavailable: retry all
                changes; repetition is harmless.
        """
        events = [change_event(await self._with_content(change)) for change in changes]
        await self._publisher.publish(events)
        guarded = defaultdict[TenantId, list[AccessUpdate]](list)
        for event in events:
            data = event.data
            acl = data.acl if data.patch is None else data.patch.get("acl")
            if (data.deleted or acl is not None) and not data.listing:
                guarded[event.tenant_id].append(
                    AccessUpdate(event.document_id, data.fence, None if acl is None else tuple(acl))
                )
        for tenant_id, of_tenant in guarded.items():
            try:
                await self._guard.apply_access_updates(tenant_id, of_tenant)
            except TenantDeletedError:
                continue
            except RetryableError as exc:
                raise OutageError("database", str(exc)) from exc

    async def _with_content(self, change: Change) -> Changed:
        if change.content is None:
            return change.data
        if len(change.content) <= INLINE_LIMIT_BYTES:
            content: dict[str, str] = {"content": base64.b64encode(change.content).decode()}
        else:
            data = change.data
            await self._blobs.put(
                TenantId(data.tenant_id), DocumentId(data.document_id), data.version, change.content
            )
            content = {"blob": hashlib.sha256(change.content).hexdigest()}
        return change.data.model_copy(update={**content, "size_bytes": len(change.content)})
