"""Dead letters: events that cannot be processed, with their exact bytes, place and reason."""

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
    decode_cursor,
    encode_cursor,
    is_storable,
    unknown_cursor_error,
)
from livedex.pipeline.store.postgres.statements import sql

_MAX_DETAIL_CHARACTERS = 2000
# of a record; a message with it in base64 fits into a megabyte
_MAX_INLINE_PAYLOAD_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter.

    Attributes:
        letter_id: derived from where the record stood, so that the same record never leaves two.
        place: row, or partition and offset, and key.
        payload: the exact bytes; empty in a list.
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
        """Whether it is something that a subscriber was not told: that says nothing against its
        document.
        """
        return self.stage == NOTIFY_STAGE


def dead_letter_id(record_id: str, payload: bytes) -> str:
    """The id of the letter of a record."""
    return hashlib.sha256(record_id.encode() + b"\x00" + payload).hexdigest()[:16]


def dead_letter_event(letter: DeadLetter, *, brief: bool = False) -> Event[DeadLetterData]:
    """What is told of a letter: its bytes where they fit into a message, and where to find them
    otherwise.

    Args:
        brief: without bytes, headers and key, which the table of dead letters has.
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
    """Keep a letter; False where it was kept before.

    Args:
        connection: in a transaction of its tenant.
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
    """What others said may be in it, and a letter that cannot be kept would never end."""
    return sanitize_text(letter.detail[:_MAX_DETAIL_CHARACTERS])


async def _mark_document(
    connection: Connection, letter: DeadLetter, event: Event[Any] | None
) -> None:
    """Mark the document of a letter; what has to be looked up is no document."""
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
    """The event in a letter; None where there is none."""
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
        raise unknown_cursor_error() from exc
    if after.tzinfo is None:
        raise unknown_cursor_error()
    return after, letter_id


class DeadLetterStore:
    """The dead letters of every tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bury(self, letter: DeadLetter, event: Event[Any] | None = None) -> None:
        """Keep a letter, mark its document, and write what subscribers are to be told, in one
        transaction; the same letter again changes nothing.

        What has to be looked up is no document, and nothing is marked.

        Args:
            event: that died; None where there is none in the bytes.
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
        """Mark the document of a letter again that was not sent through after all."""
        async with self._database.tenant(
            letter.tenant_id, f"mark the document of dead letter {letter.letter_id}"
        ) as connection:
            await _mark_document(connection, letter, _decode_event(letter))

    async def all(self) -> list[DeadLetter]:
        """Every letter, oldest first within a tenant, without payloads."""
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
        """One letter, with its payload.

        Raises:
            NotFoundError: there is none of this id.
        """
        for tenant_id in await self._database.tenants() if is_storable(wanted) else ():
            async with self._database.tenant(tenant_id, "read dead letter") as connection:
                row = await connection.fetchrow(sql("read_letter"), tenant_id, wanted)
            if row is not None:
                return DeadLetter(
                    **{**dict(row), "tenant_id": tenant_id}, size_bytes=len(row["payload"])
                )
        raise NotFoundError(
            f"there is no dead letter {wanted}: `livedex dead list` shows what there is"
        )

    async def is_stale(self, letter: DeadLetter) -> bool:
        """Whether its document has a version as new or newer, or was deleted after it died, so
        that a replay would change nothing.
        """
        if letter.is_notification or letter.document_id is None or letter.version is None:
            return False
        async with self._database.tenant(
            letter.tenant_id, "look at a letter's document"
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
        """Take a letter away; its document has its last synced state again.

        Args:
            forget: also the document, when nothing of it was ever synced and nothing is under way
                (a drop); False for a replay.
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
        """How many letters there are."""
        return await self._database.total("count_letters", "count dead letters")
