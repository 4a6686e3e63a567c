"""Dead letters that are sent through again: each stays, out of the lists, until its record has an
outcome.

An outcome that works takes the letter away; a failure adds its attempts to those before, and leaves
bytes and place as they are. Whether the broker held a record whose sending timed out is not known,
so such a letter is left alone for `UNDECIDED_S`, and then listed again.
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
"""The header of a record that is sent again: the id of its letter."""


class DeadLetterReplays:
    """Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, letter: DeadLetter) -> None:
        """Note that a letter is being sent through again, and take its mark off its document; it
        stands in no list from now on.

        Raises:
            ConflictError: that was noted before, and has no outcome yet.
        """
        async with self._database.tenant(
            letter.tenant_id, f"replay dead letter {letter.letter_id}"
        ) as connection:
            begun = await connection.fetchval(
                sql("begin_replay"), letter.tenant_id, letter.letter_id
            )
            if begun is None:
                raise ConflictError(
                    f"letter {letter.letter_id} was sent through a moment ago and has no "
                    "outcome yet: wait for it"
                )
            if letter.document_id is not None and letter.version is not None:
                await connection.execute(
                    sql("unmark_dead"), letter.tenant_id, letter.document_id, letter.version
                )

    async def cancel(self, letter: DeadLetter) -> None:
        """Note that a letter was not sent after all, and mark its document again."""
        async with self._database.tenant(
            letter.tenant_id, f"keep dead letter {letter.letter_id}"
        ) as connection:
            await connection.execute(sql("cancel_replay"), letter.tenant_id, letter.letter_id)
        if letter.document_id is not None and letter.version is not None:
            await DeadLetterStore(self._database).mark(letter)

    async def complete(self, letter_id: str, payload: bytes, tenants: Sequence[TenantId]) -> None:
        """Take away the letter of a record that has had its effect.

        Args:
            payload: of the record: whoever can write records can write any header.
            tenants: whose letter it may be.
        """
        for tenant_id in {*tenants, UNKNOWN_TENANT}:
            async with self._database.tenant(
                tenant_id, f"replayed dead letter {letter_id}"
            ) as connection:
                await connection.execute(sql("end_replay"), tenant_id, letter_id, payload)

    async def merge_failure(self, letter_id: str, letter: DeadLetter) -> DeadLetter:
        """What a record that failed again leaves: the letter that it came from, with what is new in
        it.

        Args:
            letter: as the record alone would leave it.
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
