"""Replay and drop dead letters, each on its own."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from livedex.pipeline.errors import LivedexError, OutageError
from livedex.pipeline.model import DocumentId
from livedex.pipeline.store.notification_outbox import NotificationOutbox
from livedex.pipeline.store.replays import DeadLetterReplays

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.consumers.stage_processors import Broker
    from livedex.pipeline.store.dead_letter_store import DeadLetter

log = logging.getLogger(__name__)

_MOST_OUTAGES = 3
"""In a row, after which the broker is not asked any more."""


@dataclass(slots=True)
class ReplayResult:
    """What became of letters.

    Attributes:
        stale: taken away, since a newer version is there.
        failed: not sent, or not known to be, with the reason; they are kept.
    """

    replayed: int = 0
    stale: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)


async def replay_dead_letters(
    s: AppContext, broker: Broker, letters: AsyncIterator[DeadLetter]
) -> ReplayResult:
    """Send letters through again; one that cannot be sent keeps no other from it."""
    done, replays, outages = ReplayResult(), DeadLetterReplays(s.database), 0
    async for letter in letters:
        if outages >= _MOST_OUTAGES:
            done.failed.append((letter.letter_id, "not tried: the broker does not answer"))
            continue
        try:
            if await s.letters.is_stale(letter):
                await s.letters.remove(letter, forget=False)
                done.stale += 1
                continue
            await _send(s, broker, replays, letter)
        except LivedexError as exc:
            outages = outages + 1 if isinstance(exc, OutageError) else 0
            done.failed.append((letter.letter_id, str(exc)))
        except Exception as exc:  # of a client that has no word for what is wrong with these bytes
            log.exception("letter %s could not be sent", letter.letter_id)
            outages = 0
            done.failed.append((letter.letter_id, f"{type(exc).__name__}: {exc}"))
        else:
            outages = 0
            done.replayed += 1
    return done


async def drop_dead_letter(s: AppContext, letter: DeadLetter) -> None:
    """Remove a dead letter permanently, with the large content that only it names."""
    names_version = letter.document_id is not None and letter.version is not None
    if not letter.is_notification and names_version:
        await s.blobs.discard(
            letter.tenant_id, DocumentId(letter.document_id or ""), letter.version or 0
        )
    await s.letters.remove(letter, forget=True)


async def _send(
    s: AppContext, broker: Broker, replays: DeadLetterReplays, letter: DeadLetter
) -> None:
    if letter.is_notification:
        await NotificationOutbox(s.database).put_again(letter)
        return
    await replays.begin(letter)
    try:
        await broker.republish_dead_letter(letter)
    except OutageError as exc:
        raise OutageError(
            exc.component,
            f"{exc}; whether it was sent is not known: it is listed again in 15 minutes, "
            "unless it worked by then",
        ) from exc
    except BaseException:
        await replays.cancel(letter)
        raise
