"""How a change enters Livedex: large content goes to the blob store first, then the event is
published, then it is accepted.
"""

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
    """A change as a connector sees it.

    Attributes:
        data: without `content`, `blob` and `size_bytes`.
        content: the bytes; None for a delete or an unreadable document.
    """

    data: Changed
    content: bytes | None = None


class ChangePublisher(Protocol):
    """Puts events of changes on `livedex.changed`."""

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        """Returns once the broker holds every event.

        Raises:
            OutageError: it does not; some of the events may be there.
        """
        ...


class ChangeSink(Protocol):
    """Accepts changes."""

    async def accept(self, changes: Sequence[Change]) -> None:
        """Returns once nothing of them can be lost.

        Raises:
            OutageError: try all of them again, repetition does no harm.
        """
        ...


class UnavailableIngester:
    """`Accepting` where no broker is reached."""

    async def accept(self, changes: Sequence[Change]) -> None:
        """Refuse for now."""
        raise OutageError("broker", f"{len(changes)} changes: not connected")


class DeferredIngester:
    """`Accepting` for who is there before the broker is."""

    def __init__(self) -> None:
        self._accepting: ChangeSink = UnavailableIngester()

    def connect(self, accepting: ChangeSink) -> None:
        """Pass changes on from now on."""
        self._accepting = accepting

    async def accept(self, changes: Sequence[Change]) -> None:
        """Pass them on, or refuse them for now."""
        await self._accepting.accept(changes)


class Ingester:
    """Accepts changes: when `accept` returns, nothing of them can be lost, and whom they shut out
    is shut out.

    Args:
        apply_access_updates: lets rights and deletes hold before the changes are processed, however
            long they
            wait.
    """

    def __init__(self, publisher: ChangePublisher, blobs: BlobStore, guard: AccessUpdater) -> None:
        self._publisher = publisher
        self._blobs = blobs
        self._guard = guard

    async def accept(self, changes: Sequence[Change]) -> None:
        """Publish changes, in order; then let their rights and deletes hold. In this order, since
        what is guarded has to be on its way.

        Raises:
            OutageError: the broker, the blob store or the database is away: try all of them again,
            repetition does no harm.
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
