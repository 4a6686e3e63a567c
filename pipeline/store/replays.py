"""Replays of dead letters. A replayed dead letter is hidden from lists until its record has an
outcome.

Success removes the dead letter. Failure adds the attempts to the earlier ones and leaves payload
and position unchanged. If publishing timed out, it is unknown whether the broker stored the record:
such a dead letter is hidden for a fixed time, and then listed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from livedex.pipeline.errors import ConflictError
from livedex.pipeline.model import TenantId
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.postgres.statements import sql

REPLAY_HEADER = "livedex-letter"
"""Header of a replayed record: the id of its dead letter."""


class DeadLetterReplays:
    """Tracks replays. Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, letter: DeadLetter) -> None:
        """Record that a dead letter is being replayed: hide it, and unmark its document.

        Args:
            letter: to replay.

        Raises:
            ConflictError: an earlier replay has no outcome yet.
        """
        async with self._database.tenant(
            letter.tenant_id, f"replay dead letter {letter.letter_id}"
        ) as connection:
            begun = await connection.fetchval(
                sql("begin_replay"), letter.tenant_id, letter.letter_id
            )
            if begun is None:
                raise ConflictError(
                    f"dead letter {letter.letter_id} is being replayed already: wait for the "
                    "outcome"
                )
            if letter.document_id is not None and letter.version is not None:
                await connection.execute(
                    sql("unmark_dead"), letter.tenant_id, letter.document_id, letter.version
                )

    async def cancel(self, letter: DeadLetter) -> None:
        """Undo `begin` for a record that was not published: list the dead letter, and mark its
        document.
        """
        async with self._database.tenant(
            letter.tenant_id, f"keep dead letter {letter.letter_id}"
        ) as connection:
            await connection.execute(sql("cancel_replay"), letter.tenant_id, letter.letter_id)
        if letter.document_id is not None and letter.version is not None:
            await DeadLetterStore(self._database).mark(letter)

    async def complete(self, letter_id: str, payload: bytes, tenants: Sequence[TenantId]) -> None:
        """Remove the dead letter of a record that was processed.

        Args:
            letter_id: from the record's header.
            payload: of the record; must match the dead letter, because headers can be forged.
            tenants: that may own the dead letter.
        """
        for tenant_id in {*tenants, UNKNOWN_TENANT}:
            async with self._database.tenant(
                tenant_id, f"replayed dead letter {letter_id}"
            ) as connection:
                await connection.execute(sql("end_replay"), tenant_id, letter_id, payload)

    async def merge_failure(self, letter_id: str, letter: DeadLetter) -> DeadLetter:
        """Return the dead letter of a replayed record that failed again: the original one with the
        new attempts and error.

        Args:
            letter_id: from the record's header.
            letter: for the record alone.
        """
        for tenant_id in (letter.tenant_id, UNKNOWN_TENANT):
            async with self._database.tenant(
                tenant_id, f"read dead letter {letter_id}"
            ) as connection:
                row = await connection.fetchrow(
                    sql("read_replayed"), tenant_id, letter_id, letter.payload
                )
                if row is None:
                    continue
                await connection.execute(
                    sql("end_replay"), tenant_id, letter_id, letter.payload
                ) if tenant_id != letter.tenant_id else None
            return replace(
                letter,
                letter_id=letter_id,
                attempts=row["attempts"] + letter.attempts,
                place=row["place"],
                headers=row["headers"],
            )
        return letter
