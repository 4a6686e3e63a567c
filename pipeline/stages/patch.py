"""Process patches in the chunk stage: versions that change metadata, and not the content."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from livedex.pipeline.errors import NotScheduledError, RejectedError, RetryableError
from livedex.pipeline.events.event import CHUNKED, Changed, Event, next_stage_event
from livedex.pipeline.model import shorten_id
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.store.drafts import Draft

_POLL_FOR_S = 20.0  # the version that the patch changes is polled for so long
_UNHELD_WAIT_S = 60.0  # a version that the broker may never have held is awaited for so long
_RETRY_FOR_S = 3600.0
_POLL_S = 0.2


class PatchStore(Protocol):
    """Stores patches."""

    async def store_patch(
        self, base: Draft, patch: Mapping[str, Any], builds_on: int
    ) -> Literal["kept", "superseded", "waits"]:
        """Accept a version that changes the previous one.

        Args:
            base: the draft without content.
            patch: a merge patch of attributes.
            builds_on: the version to wait for.

        Returns:
            `waits` if the version that it changes is not processed yet.

        Raises:
            RejectedError: the version that it changes is a dead letter, or the result is too large.
        """
        ...


async def patch(event: Event[Changed], patches: PatchStore | None) -> Forward | Finished:
    """Store a version that changes the newest one before it, once that is processed.

    Args:
        event: with a patch.
        patches: stores patches; None: patches are rejected.

    Raises:
        NotScheduledError: the version that it changes is not processed yet.
        RetryableError: the same, for longer than the poll.
        RejectedError: it never will be, or patches are not accepted here.
    """
    data = event.data
    if patches is None or data.patch is None:
        raise RejectedError("no document is patched here: send its content", reason="not_patched")
    base = Draft(
        event.tenant_id,
        event.document_id,
        data.fence,
        "synced",
        data.attributes,
        event.accepted,
        arrival=event.arrival,
    )
    age_s = (datetime.now(UTC) - event.arrival.at).total_seconds()
    builds_on, held = data.builds_on or 0, data.held if data.held is not None else -1
    kept = await patches.store_patch(
        base, data.patch, builds_on if age_s < _UNHELD_WAIT_S else min(builds_on, max(held, 0))
    )
    if kept == "kept":
        return Forward(next_stage_event(CHUNKED, event, data.fence))
    if kept == "superseded":
        return Finished(superseded=True)
    why = (
        f"{shorten_id(data.document_id)} v{data.version} changes v{builds_on}, which has not "
        "been processed yet"
    )
    if age_s < _POLL_FOR_S:
        raise NotScheduledError(why, retry_after_s=_POLL_S)
    error = RetryableError(why)
    error.retry_for_s = _RETRY_FOR_S
    raise error
