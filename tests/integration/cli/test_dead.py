"""Dead letters through the program, on a database of the test's own: exact bytes, marks, what a
newer version makes stale.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from livedex.pipeline.model import Attributes, DocumentId, Fence, Reader, TenantId
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.drafts import Draft
from tests.support.programs.command import LivedexCommand, only_line

TENANT = TenantId("default")
NOTE = DocumentId("docs/note.md")


@pytest.fixture
def letters(database: Database) -> DeadLetterStore:
    return DeadLetterStore(database)


@pytest.fixture
def program(tmp_path: Path, owner_url: str) -> LivedexCommand:
    return LivedexCommand(tmp_path, owner_url, "dead")


async def bury(
    letters: DeadLetterStore,
    letter_id: str,
    version: int,
    *,
    document_id: DocumentId | None = NOTE,
    payload: bytes = b'{"a": 1}',
) -> None:
    letter = DeadLetter(
        letter_id,
        TENANT if document_id else UNKNOWN_TENANT,
        "embed",
        document_id,
        version if document_id else None,
        "rejected",
        "the provider refuses\nit",
        1,
        "livedex.chunked",
        {"row": 7},
        {"accepted": "x"},
        payload,
    )
    await letters.bury(letter)


async def sync(database: Database, version: int) -> None:
    """Make an empty version of the note the visible one."""
    store, fence = PgVectorStore(database), Fence(version, bytes(33))
    await store.accept(TENANT, NOTE, fence, Attributes(source="docs"), datetime.now(UTC))
    await store.save_drafts(
        [Draft(TENANT, NOTE, fence, "empty", Attributes(source="docs"), datetime.now(UTC))]
    )
    await store.sync_document(TENANT, NOTE, fence, None)


async def state(database: Database) -> str | None:
    """Of the note, as a reader sees it; None: there is no such document."""
    found = await DocumentQueries(database).get(Reader(TENANT), NOTE)
    return None if found is None else found.state


async def test_letters_are_listed_oldest_first_with_every_field(
    letters: DeadLetterStore, program: LivedexCommand
) -> None:
    await bury(letters, "aaaa", 1)
    await bury(letters, "bbbb", 0, document_id=None, payload=b"\xff\xfe")
    found = json.loads(await program.told("list", "--json"))["dead"]
    assert {letter["id"] for letter in found} == {"aaaa", "bbbb"}
    [note] = [letter for letter in found if letter["id"] == "aaaa"]
    assert datetime.fromisoformat(note.pop("at")).tzinfo is not None
    assert note == {
        "id": "aaaa",
        "stage": "embed",
        "document_id": NOTE,
        "reason": "rejected",
        "detail": "the provider refuses\nit",
        "attempts": 1,
        "size_bytes": 8,
    }
    table = await program.told("list")
    assert "the provider refuses it" in table
    assert len(table.splitlines()) == 3


async def test_the_exact_bytes_are_shown_as_text_or_in_base64(
    letters: DeadLetterStore, program: LivedexCommand
) -> None:
    await bury(letters, "aaaa", 1)
    await bury(letters, "bbbb", 0, document_id=None, payload=b"\xff\xfe")
    text = json.loads(await program.told("show", "aaaa", "--json"))
    assert (text["payload"], text["payload_encoding"], text["topic"], text["place"]) == (
        '{"a": 1}',
        "utf-8",
        "livedex.chunked",
        {"row": 7},
    )
    raw = json.loads(await program.told("show", "bbbb", "--json"))
    assert (raw["payload"], raw["payload_encoding"], raw["document_id"]) == ("//4=", "base64", None)
    assert '{"a": 1}' in await program.told("show", "aaaa")


@pytest.mark.parametrize("command", ["show", "replay", "drop"])
async def test_an_unknown_letter_is_named_in_one_line(
    letters: DeadLetterStore, program: LivedexCommand, command: str
) -> None:
    await bury(letters, "aaaa", 1)
    assert "no-such-letter" in only_line(await program.run(command, "no-such-letter"))
    assert len(await letters.all()) == 1


async def test_a_replay_publishes_the_exact_bytes_and_takes_the_mark_away(
    database: Database, letters: DeadLetterStore, program: LivedexCommand, owner: asyncpg.Connection
) -> None:
    await bury(letters, "aaaa", 5, payload=b'{"exact":  "bytes"}\n')
    assert await state(database) == "dead"
    assert await program.told("replay", "aaaa") == "replayed 1 letter\n"
    [row] = await owner.fetch("select queue, payload from queue")
    assert (row["queue"], bytes(row["payload"])) == ("livedex.chunked", b'{"exact":  "bytes"}\n')
    assert await letters.all() == []
    assert await owner.fetchval("select dead_version from documents") is None


async def test_a_replay_of_what_a_newer_version_has_overtaken_publishes_nothing(
    database: Database, letters: DeadLetterStore, program: LivedexCommand, owner: asyncpg.Connection
) -> None:
    await bury(letters, "aaaa", 5)
    await sync(database, 6)
    await bury(letters, "bbbb", 7)
    assert (
        await program.told("replay", "--all")
        == "replayed 1 letter; 1 letter stale: a newer version is there\n"
    )
    assert await owner.fetchval("select count(*) from queue") == 1
    assert await letters.all() == []


async def test_a_dropped_letter_leaves_the_last_synced_state(
    database: Database, letters: DeadLetterStore, program: LivedexCommand
) -> None:
    await sync(database, 4)
    await bury(letters, "aaaa", 5)
    assert await state(database) == "dead"
    assert await program.told("drop", "aaaa") == "dropped 1 letter\n"
    assert await state(database) == "empty"


async def test_a_dropped_letter_of_what_was_never_synced_leaves_nothing(
    database: Database, letters: DeadLetterStore, program: LivedexCommand
) -> None:
    await bury(letters, "aaaa", 5)
    await bury(letters, "bbbb", 0, document_id=None)
    assert await program.told("drop", "--all") == "dropped 2 letters\n"
    assert await state(database) is None


async def test_a_replay_that_has_died_again_meanwhile_keeps_its_mark(
    letters: DeadLetterStore, owner: asyncpg.Connection
) -> None:
    await bury(letters, "aaaa", 5)
    replayed = await letters.find("aaaa")
    await bury(letters, "bbbb", 5)
    await letters.remove(replayed, forget=False)
    assert await owner.fetchval("select dead_version from documents") == 5


async def test_a_detail_that_no_database_can_keep_keeps_no_letter_from_being_written(
    database: Database, letters: DeadLetterStore
) -> None:
    """What a provider answers may stand in it."""
    await letters.bury(
        DeadLetter("aaaa", TENANT, "embed", NOTE, 5, "rejected", "it said \x00 and \ud800", 1)
    )
    [letter] = await letters.all()
    assert letter.detail == "it said  and \ufffd"
    assert await state(database) == "dead"
