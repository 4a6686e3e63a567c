"""What is published again after a broker lost records: what the database and the ledgers of
folders know to be missing, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import asyncpg

from livedex.consumers.lost_records import RecordRecovery, Republished
from livedex.pipeline.events.event import Changed, Event
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.installation_status import InstallationStatus

OLD = time.time_ns() - 3600 * 10**9


class Published:
    """Stands where a broker is."""

    def __init__(self) -> None:
        self.changes: list[Event[Changed]] = []
        self.steps: list[Event[Any]] = []

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        self.changes += events

    async def publish_step(self, topic: str, event: Event[Any]) -> None:
        assert topic == event.type
        self.steps.append(event)

    async def republish_dead_letter(self, letter: object) -> None:
        raise AssertionError


async def test_steps_files_and_deletes_that_never_arrived_are_published_again(
    owner: asyncpg.Connection[asyncpg.Record], database: Database
) -> None:
    await owner.execute("select set_config('livedex.tenant', 't', false)")
    await owner.execute("insert into tenants (tenant_id) values ('t')")

    async def document(
        name: str, version: int | None, pending: int | None = None, state: str | None = "synced"
    ) -> None:
        digest = None if pending is None else b"\0" * 33
        await owner.execute(
            "insert into documents (tenant_id, document_id, state, version, digest, "
            "pending_version, pending_digest, accepted_at)"
            " values ('t', $1, $2, $3, $4, $5, $6, now() - interval '1 hour')",
            name,
            state,
            version,
            None if version is None else b"\0" * 33,
            pending,
            digest,
        )

    async def manifest(name: str, version: int) -> None:
        await owner.execute(
            "insert into manifests (tenant_id, document_id, version, digest, outcome, keep, "
            "cut, attributes, passage_ids, gaps, lengths, headings, accepted_at)"
            " values ('t', $1, $2, $3, 'synced', false, '', '{}', '{}', '{}', '{}', '{}', now())",
            name,
            version,
            b"\0" * 33,
        )

    async def file(name: str, version: int, present: bool = True) -> None:
        await owner.execute(
            "insert into source_files (tenant_id, source, path, document_id, fingerprint, "
            "version, present) values ('t', 's', $1, $2, 'f', $3, $4)",
            name.encode(),
            name,
            version,
            present,
        )

    await document("step", OLD, OLD + 1)
    await manifest("step", OLD + 1)
    await file("step", OLD + 1)
    await file("never seen", OLD)
    await document("changed", OLD)
    await file("changed", OLD + 1)
    await document("gone", OLD)
    await file("gone", OLD + 1, present=False)
    await document("deleted", OLD + 1, state="deleted")
    await file("deleted", OLD + 1, present=False)
    await document("right", OLD)
    await file("right", OLD)
    await document("newer", OLD + 5)
    await file("newer", OLD)
    await file("a moment ago", time.time_ns())

    broker, operations = Published(), InstallationStatus(database)
    done = await RecordRecovery(database, operations, broker).republish()
    assert done == Republished(steps=1, deletes=1, files=2)
    assert [(e.document_id, e.data.version) for e in broker.steps] == [("step", OLD + 1)]
    assert [(e.document_id, e.data.version, e.data.deleted) for e in broker.changes] == [
        ("gone", OLD + 1, True)
    ]
    left = {row["document_id"] for row in await owner.fetch("select document_id from source_files")}
    assert left == {"step", "gone", "deleted", "right", "newer", "a moment ago"}
    assert len(await operations.open_requests()) == 1
