"""Dead letters: events that cannot be processed, with their exact bytes, position and reason."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from livedex.pipeline.errors import NotFoundError, RejectedError
from livedex.pipeline.events.decoder import decode_event
from livedex.pipeline.events.event import (
    CHANGED,
    DEAD,
    Changed,
    DeadLetterData,
    Event,
    HeaderValue,
    ManifestRef,
)
from livedex.pipeline.events.notifications import NOTIFY_STAGE
from livedex.pipeline.extract.sanitizer import sanitize_text
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.documents.document_sync import sync_ended_payload
from livedex.pipeline.store.page_cursor import (
    InvalidCursorError,
    decode_cursor,
    encode_cursor,
    is_storable,
)
from livedex.pipeline.store.postgres.statements import sql

_MAX_DETAIL_CHARACTERS = 2000
# of a record, so that a message with its base64 form stays below one megabyte
_MAX_INLINE_PAYLOAD_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter.

    Attributes:
        letter_id: derived from the record's position, so that one record never creates two.
        tenant_id: owner of the document.
        stage: in which processing failed.
        document_id: None: unknown.
        version: None: unknown.
        reason: a short code.
        detail: message for operators.
        attempts: number of attempts.
        topic: of the record.
        place: position of the record: row, or partition and offset, and key.
        headers: of the record.
        payload: the exact bytes; empty in a list.
        at: time of the failure, aware.
        size_bytes: size of the payload.
    """

    letter_id: str
    tenant_id: TenantId
    stage: str
    document_id: str | None
    version: int | None
    reason: str
    detail: str
    attempts: int
    topic: str = ""
    place: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    payload: bytes = b""
    at: datetime | None = None
    size_bytes: int = 0

    @property
    def is_notification(self) -> bool:
        """Return whether it is an undelivered notification, which does not affect its document."""
        return self.stage == NOTIFY_STAGE


def dead_letter_id(record_id: str, payload: bytes) -> str:
    """Return the id of the dead letter of a record.

    Args:
        record_id: topic and position of the record.
        payload: of the record.
    """
    return hashlib.sha256(record_id.encode() + b"\x00" + payload).hexdigest()[:16]


def dead_letter_event(letter: DeadLetter, *, brief: bool = False) -> Event[DeadLetterData]:
    """Return the event that announces a dead letter. It contains the payload if that fits into a
    message, and always the position of the record.

    Args:
        letter: the dead letter.
        brief: leave out payload, headers and key; the dead letter table has them.
    """
    now = datetime.now(UTC)
    fits = len(letter.payload) <= _MAX_INLINE_PAYLOAD_BYTES and not brief
    place = {
        name: value
        for name, value in letter.place.items()
        if not (name == "key" and (brief or len(value or "") > _MAX_INLINE_PAYLOAD_BYTES // 4))
    }
    headers = (
        dict(letter.headers)
        if len(orjson.dumps(letter.headers)) <= _MAX_INLINE_PAYLOAD_BYTES // 4 and not brief
        else {}
    )
    data = DeadLetterData(
        letter_id=letter.letter_id,
        tenant_id=letter.tenant_id,
        document_id=letter.document_id or "",
        version=letter.version,
        stage=letter.stage,
        reason=letter.reason,
        detail=letter.detail[:_MAX_DETAIL_CHARACTERS],
        attempts=letter.attempts,
        topic=letter.topic,
        place=place,
        headers=headers,
        payload=base64.b64encode(letter.payload).decode() if fits else None,
        payload_sha256=hashlib.sha256(letter.payload).hexdigest(),
        size_bytes=len(letter.payload),
    )
    subject = letter.document_id or None
    return Event[DeadLetterData](
        id=letter.letter_id,
        source=f"/stages/{letter.stage}",
        type=DEAD,
        subject=subject,
        time=now,
        accepted=now,
        data=data,
    )


async def insert_dead_letter(connection: Connection, letter: DeadLetter) -> bool:
    """Store a dead letter, and return whether it is new.

    Args:
        connection: in a transaction of the dead letter's tenant.
        letter: the dead letter.
    """
    kept = await connection.fetchval(
        sql("insert_letter"),
        letter.letter_id,
        letter.tenant_id,
        letter.stage,
        letter.document_id,
        letter.version,
        letter.reason,
        _stored_detail(letter),
        letter.attempts,
        letter.topic,
        dict(letter.place),
        dict(letter.headers),
        letter.payload,
    )
    return bool(kept)


def _stored_detail(letter: DeadLetter) -> str:
    """Return a detail that can be stored: it may quote invalid input of other systems."""
    return sanitize_text(letter.detail[:_MAX_DETAIL_CHARACTERS])


async def _mark_document(
    connection: Connection, letter: DeadLetter, event: Event[Any] | None
) -> None:
    """Mark the document of a dead letter as dead, except for notifications and listings."""
    data = event.data if event is not None else None
    changed = data if isinstance(data, Changed) else None
    if (
        letter.document_id is None
        or letter.version is None
        or letter.is_notification
        or (changed and changed.listing)
    ):
        return
    await connection.execute(
        sql("mark_dead"),
        letter.tenant_id,
        letter.document_id,
        letter.version,
        _stored_detail(letter),
        changed.source if changed else "",
        list(changed.acl) if changed and changed.acl is not None else None,
        changed is not None,
        *((event.arrival.at, event.arrival.place) if event is not None else (None, None)),
    )
    await connection.execute(
        sql("notify_ended"), sync_ended_payload(letter.tenant_id, letter.document_id)
    )


def _decode_event(letter: DeadLetter) -> Event[Any] | None:
    """Return the event in a dead letter; None: the payload is no event."""
    try:
        return decode_event(letter.payload, Changed if letter.topic == CHANGED else ManifestRef)
    except RejectedError:
        return None


def _place(letter: DeadLetter) -> tuple[str, str]:
    """Return the place of a letter in a list: times of one length sort as text."""
    at = letter.at or datetime.min.replace(tzinfo=UTC)
    return at.astimezone(UTC).isoformat(timespec="microseconds"), letter.letter_id


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    at, letter_id = decode_cursor(cursor, 2)
    try:
        after = datetime.fromisoformat(at)
    except ValueError as exc:
        raise InvalidCursorError from exc
    if after.tzinfo is None:
        raise InvalidCursorError
    return after, letter_id


class DeadLetterStore:
    """The dead letters of every tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bury(self, letter: DeadLetter, event: Event[Any] | None = None) -> None:
        """Store a dead letter, mark its document, and queue notifications, in one transaction.
        Idempotent.

        A dead letter of a listing event marks no document.

        Args:
            letter: the dead letter.
            event: that failed; None: the payload is no event.
        """
        changed = event.data if event is not None and isinstance(event.data, Changed) else None
        tenant_id = letter.tenant_id
        async with self._database.tenant(
            tenant_id, f"dead letter {letter.letter_id}"
        ) as connection:
            await connection.execute(sql("add_tenant"), tenant_id)
            is_new = await insert_dead_letter(connection, letter)
            await _mark_document(connection, letter, event)
            if is_new:
                await connection.execute(
                    sql("tell_of_letter"),
                    tenant_id,
                    letter.letter_id,
                    letter.stage,
                    letter.document_id,
                    letter.version,
                    letter.reason,
                    changed.collection if changed and not changed.deleted else None,
                )

    async def mark(self, letter: DeadLetter) -> None:
        """Mark the document of a dead letter again whose replay was cancelled."""
        async with self._database.tenant(
            letter.tenant_id, f"mark the document of dead letter {letter.letter_id}"
        ) as connection:
            await _mark_document(connection, letter, _decode_event(letter))

    async def all(self) -> list[DeadLetter]:
        """Return all dead letters by tenant and age, oldest first, without payloads."""
        found = []
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "list dead letters") as connection:
                found += [
                    DeadLetter(tenant_id=tenant_id, **dict(row))
                    for row in await connection.fetch(sql("list_letters"), tenant_id)
                ]
        return found

    async def page(
        self, *, stage: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> tuple[Sequence[DeadLetter], str | None]:
        """Return a page of letters, oldest first, without payloads.

        Args:
            stage: only letters of this stage; None for all.
            limit: letters at most, >= 1.
            cursor: from the page before; None for the first.

        Returns:
            The letters, and the cursor of the next page, None on the last.

        Raises:
            RejectedError: the cursor is none that a page gave.
        """
        after, above = (datetime.min.replace(tzinfo=UTC), "")
        if cursor is not None:
            after, above = _read_cursor(cursor)
        if stage is not None and not is_storable(stage):
            return [], None
        found: list[DeadLetter] = []
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(tenant_id, "list dead letters") as connection:
                found += [
                    DeadLetter(tenant_id=tenant_id, **dict(row))
                    for row in await connection.fetch(
                        sql("page_letters"), tenant_id, stage, after, above, limit + 1
                    )
                ]
        found.sort(key=_place)
        page = found[:limit]
        return page, encode_cursor(_place(page[-1])) if len(found) > limit else None

    async def find(self, wanted: str) -> DeadLetter:
        """Return a dead letter with its payload.

        Args:
            wanted: its id.

        Raises:
            NotFoundError: no dead letter has this id.
        """
        for tenant_id in await self._database.tenants() if is_storable(wanted) else ():
            async with self._database.tenant(tenant_id, "read dead letter") as connection:
                row = await connection.fetchrow(sql("read_letter"), tenant_id, wanted)
            if row is not None:
                return DeadLetter(
                    **{**dict(row), "tenant_id": tenant_id}, size_bytes=len(row["payload"])
                )
        raise NotFoundError(
            f"dead letter {wanted} not found: `livedex dead list` shows all dead letters"
        )

    async def is_stale(self, letter: DeadLetter) -> bool:
        """Return whether a replay would change nothing: the document has a version that is as new,
        or was deleted after the failure.
        """
        if letter.is_notification or letter.document_id is None or letter.version is None:
            return False
        async with self._database.tenant(
            letter.tenant_id, "read the document of a dead letter"
        ) as connection:
            row = await connection.fetchrow(
                sql("document_fence"), letter.tenant_id, letter.document_id
            )
        if row is None:
            return False
        is_newer = row["version"] is not None and row["version"] >= letter.version
        return is_newer or (
            row["cleared_at"] is not None
            and letter.at is not None
            and letter.at <= row["cleared_at"]
        )

    async def remove(self, letter: DeadLetter, *, forget: bool) -> None:
        """Remove a dead letter, and restore the last synced state of its document.

        Args:
            letter: to remove.
            forget: remove the document, too, if it was never synced and nothing is pending (for a
                drop); False for a replay.
        """
        async with self._database.tenant(
            letter.tenant_id, f"remove dead letter {letter.letter_id}"
        ) as connection:
            await connection.execute(sql("delete_letter"), letter.tenant_id, letter.letter_id)
            await self._unmark(connection, letter, forget)

    async def _unmark(self, connection: Connection, letter: DeadLetter, forget: bool) -> None:
        if letter.is_notification or letter.document_id is None or letter.version is None:
            return
        await connection.execute(
            sql("unmark_dead"), letter.tenant_id, letter.document_id, letter.version
        )
        if forget:
            await connection.execute(sql("forget_unsynced"), letter.tenant_id, letter.document_id)

    async def count(self) -> int:
        """Return the number of dead letters."""
        return await self._database.total("count_letters", "count dead letters")
