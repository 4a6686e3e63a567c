"""Patches on their way through the chunk stage: versions that change what a document carries, and
not its content.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from livedex.pipeline.errors import NotScheduledError, RejectedError, RetryableError
from livedex.pipeline.events.event import CHUNKED, Changed, Event, next_stage_event
from livedex.pipeline.model import shorten_id
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.store.protocol import Draft

_AT_ONCE_S = 20.0  # for so long the version that it changes is asked for every moment
_UNSURE_S = 60.0  # after which a version whose event may never have been held is not waited for
_PATIENCE_S = 3600.0
_LOOK_AGAIN_S = 0.2


class PatchStore(Protocol):
    """Keeps patches."""

    async def keep(
        self, base: Draft, patch: Mapping[str, Any], builds_on: int
    ) -> Literal["kept", "superseded", "waits"]:
        """Accept a version that changes the one before it; `waits` where that one is not known yet.

        Raises:
            RejectedError: the version that it changes is among the dead letters, or what comes out
            is too much.
        """
        ...


async def patch(event: Event[Changed], patches: PatchStore | None) -> Forward | Finished:
    """Keep a version that changes the newest one before it, once that is known.

    Raises:
        NotScheduledError, RetryableError: it is not known yet.
        RejectedError: it never will be, or nothing is patched here.
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
    kept = await patches.keep(
        base, data.patch, builds_on if age_s < _UNSURE_S else min(builds_on, max(held, 0))
    )
    if kept == "kept":
        return Forward(next_stage_event(CHUNKED, event, data.fence))
    if kept == "superseded":
        return Finished(superseded=True)
    why = (
        f"{shorten_id(data.document_id)} v{data.version} changes v{builds_on}, which has not "
        "been processed yet"
    )
    if age_s < _AT_ONCE_S:
        raise NotScheduledError(why, retry_after_s=_LOOK_AGAIN_S)
    error = RetryableError(why)
    error.retry_for_s = _PATIENCE_S
    raise error
