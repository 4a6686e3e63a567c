"""Documents above the inline limit, from the folder to the index, with their content in object
storage on the way.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from livedex.app.broker import open_broker
from livedex.app.catch_up import wait_for_catch_up
from livedex.app.maintenance import clear_contents
from livedex.app.wiring import AppContext, open_app_context
from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.event import INLINE_LIMIT_BYTES, Changed
from livedex.pipeline.flow import StageName
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.model import DEFAULT_TENANT, DocumentId, Reader
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.dead_letter_store import DeadLetter
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.http.scripted_s3 import BUCKET, SECRET, S3Server, error_response
from tests.support.programs.command import livedex, only_line

DOCUMENT = DocumentId("docs/large.md")
SECTIONS = 700
STAGES: tuple[StageName, ...] = ("chunk", "embed", "sync")


def large(edited: int | None = None) -> bytes:
    """More than may stand in an event: sections that are a chunk each, no two alike."""
    bodies = (
        f"Section {n} {'edited ' * (n == edited)}tells of marker{n}. "
        + f"Sentence {n} goes on and on. " * 15
        for n in range(SECTIONS)
    )
    content = "\n\n".join(f"## Section {n}\n\n{body}" for n, body in enumerate(bodies)).encode()
    assert len(content) > INLINE_LIMIT_BYTES
    return content


def change(version: int, content: bytes, **more: Any) -> Change:
    data = Changed(
        tenant_id=DEFAULT_TENANT,
        document_id=DOCUMENT,
        version=version,
        name="large.md",
        source="docs",
        **more,
    )
    return Change(data, content)


class Installation:
    """An installation whose processes come and go.

    Attributes:
        contents: the folder where large content waits.
        blob_url: the setting.
        embedded: texts sent to the embedder so far.
    """

    def __init__(self, owner_url: str, folder: Path) -> None:
        self.contents, self.owner_url, self._data = folder / "contents", owner_url, folder / "data"
        self.blob_url: str | None = f"file://{self.contents}"
        self.embedded = 0
        self._data.mkdir()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AppContext]:
        """What a process works with."""
        embedder = "livedex.pipeline.embedding.fake_embedder:FakeEmbedder"
        settings: Any = Settings(
            database_url=SecretStr(self.owner_url), blob_url=self.blob_url, embedder=embedder
        )
        async with open_app_context(settings, self._data, connections=8) as s:
            await s.blobs.check()
            yield s
            self.embedded += int(
                s.metrics.registry.get_sample_value("livedex_embedded_texts_total") or 0
            )

    async def accept(self, *changes: Change) -> None:
        """A process that accepts changes and ends."""
        async with self.opened() as s, open_broker(s) as running:
            await running.intake.accept(changes)

    async def work(self) -> tuple[str, int | None] | None:
        """A process that runs every stage until nothing waits; state and version of the document
        after it.
        """
        async with self.opened() as s:
            async with open_broker(s, STAGES):
                await ended(s)
            return await state(s)

    async def clear(self) -> None:
        """A process that maintains."""
        async with self.opened() as s:
            await clear_contents(s)

    async def letters(self) -> list[DeadLetter]:
        async with self.opened() as s:
            return await s.letters.all()

    @property
    def kept(self) -> list[bytes]:
        """What waits in the folder."""
        return [path.read_bytes() for path in self._files()]

    def exchange(self, content: bytes | None) -> None:
        """Put something else where content waits, or nothing."""
        for path in self._files():
            path.unlink()
            if content is not None:
                path.write_bytes(content)

    def age(self) -> None:
        """A day goes by."""
        for path in self._files():
            os.utime(path, (time.time() - 86_400, time.time() - 86_400))

    def _files(self) -> list[Path]:
        return sorted(path for path in self.contents.rglob("*") if path.is_file())


@pytest.fixture
def installation(owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    for name in [
        name
        for name in os.environ
        if name.startswith("LIVEDEX_") and not name.startswith("LIVEDEX_TEST_")
    ]:
        monkeypatch.delenv(name)
    return Installation(owner_url, tmp_path)


async def ended(s: AppContext) -> None:
    found = await wait_for_catch_up(
        s.operations, s.backlog, deadline=time.monotonic() + 60, scan=False
    )
    assert found.all, found.left


async def state(s: AppContext) -> tuple[str, int | None] | None:
    found = await DocumentQueries(s.database).get(Reader(DEFAULT_TENANT), DOCUMENT)
    return None if found is None else (found.state, found.version)


async def health(s: AppContext, wanted: str) -> str:
    """What is said of the storage once it is as wanted."""
    async with asyncio.timeout(60):
        while True:
            told = (await s.operations.health()).get("blobs")
            if told is not None and told.state == wanted:
                return told.detail or ""
            await asyncio.sleep(0.05)


async def test_a_large_document_travels_by_reference_and_its_content_goes_when_it_has_ended(
    installation: Installation, owner: asyncpg.Connection
) -> None:
    await installation.accept(change(1, large()))
    assert await owner.fetchval("select max(octet_length(payload)) from queue") < 2000
    installation.age()
    await installation.clear()
    assert installation.kept == [large()], "a process that comes later still needs it"
    assert await installation.work() == ("synced", 1)
    assert installation.embedded == SECTIONS
    await installation.accept(change(2, large(edited=5)))
    assert await installation.work() == ("synced", 2)
    assert installation.embedded == SECTIONS + 1
    await installation.clear()
    assert installation.kept == [large(edited=5)], "what was overtaken goes at once"
    installation.age()
    await installation.clear()
    assert list(installation.contents.iterdir()) == []
    assert await owner.fetchval("select count(*) from blobs") == 0
    assert await installation.letters() == []


async def test_content_of_a_deleted_document_goes(installation: Installation) -> None:
    await installation.accept(
        change(1, large()), Change(change(2, b"").data.model_copy(update={"deleted": True}))
    )
    assert await installation.work() is None
    await installation.clear()
    assert installation.kept == []


async def test_content_that_waits_in_the_database_is_found_after_the_setting_was_made(
    installation: Installation,
) -> None:
    there, installation.blob_url = installation.blob_url, None
    await installation.accept(change(1, large()))
    assert installation.kept == []
    installation.blob_url = there
    assert await installation.work() == ("synced", 1)
    assert await installation.letters() == []


async def test_stages_wait_for_storage_that_is_away_and_go_on_by_themselves(
    installation: Installation, s3: S3Server
) -> None:
    installation.blob_url = f"s3://{BUCKET}/contents"
    await installation.accept(change(1, large()))
    async with installation.opened() as s:
        s3.answer = lambda request: error_response(503, "SlowDown")
        async with open_broker(s, STAGES):
            assert "503 SlowDown" in await health(s, "down")
            s3.answer = lambda request: None
            await ended(s)
            await health(s, "ok")
        assert await state(s) == ("synced", 1)
        assert await s.letters.all() == []


async def test_nothing_is_accepted_whose_content_could_not_be_kept(
    installation: Installation, s3: S3Server, owner: asyncpg.Connection
) -> None:
    installation.blob_url = f"s3://{BUCKET}/contents"
    async with installation.opened() as s, open_broker(s) as running:
        s3.answer = lambda request: error_response(503, "SlowDown")
        with pytest.raises(OutageError):
            await running.intake.accept([change(1, large())])
    assert await owner.fetchval("select count(*) from queue") == 0


async def test_a_process_starts_while_the_storage_is_away_and_works_on_what_needs_none(
    installation: Installation, s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    installation.blob_url = f"s3://{BUCKET}/contents"
    s3.answer = lambda request: error_response(503, "SlowDown")
    await installation.accept(change(1, b"A small note."))
    assert "documents above the inline limit are delayed" in caplog.text
    assert await installation.work() == ("synced", 1)


@pytest.mark.parametrize(
    "instead", [None, large()[:-1], large(edited=1)], ids=["gone", "truncated", "exchanged"]
)
async def test_content_that_is_not_what_it_was_ends_as_a_letter_that_says_what_to_do(
    installation: Installation, instead: bytes | None
) -> None:
    await installation.accept(change(1, large()))
    installation.exchange(instead)
    await installation.work()
    (letter,) = await installation.letters()
    assert (letter.stage, letter.reason, letter.attempts) == ("chunk", "content_missing", 1)
    assert "send the document again" in letter.detail
    assert installation.embedded == 0
    await installation.accept(change(2, large()))
    assert await installation.work() == ("synced", 2)


async def test_content_of_a_letter_stays_for_its_replay_and_goes_when_it_is_dropped(
    installation: Installation, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    await installation.accept(change(1, large()), change(2, large(edited=2)))
    async with installation.opened() as s:
        await s.letters.bury(
            DeadLetter("aaaa", DEFAULT_TENANT, "chunk", DOCUMENT, 1, "failed", "", 5)
        )
        await s.letters.bury(
            DeadLetter("bbbb", DEFAULT_TENANT, "chunk", DOCUMENT, 2, "failed", "", 5)
        )
    await owner.execute("delete from queue")
    installation.age()
    await installation.clear()
    assert len(installation.kept) == 2
    settings = {
        "LIVEDEX_DATABASE_URL": installation.owner_url,
        "LIVEDEX_BLOB_URL": str(installation.blob_url),
    }
    done = await asyncio.to_thread(livedex, tmp_path, "dead", "drop", "aaaa", **settings)
    assert (done.stdout, done.stderr) == ("dropped 1 letter\n", "")
    assert installation.kept == [large(edited=2)]
    await installation.accept(change(3, b"A small note."))
    assert await installation.work() == ("synced", 3)
    installation.age()
    await installation.clear()
    assert installation.kept == [large(edited=2)], "the letter still names it"
    await asyncio.to_thread(livedex, tmp_path, "dead", "replay", "--all", **settings)
    await installation.clear()
    assert installation.kept == []


async def test_the_program_says_in_one_line_why_it_cannot_start(
    owner_url: str, tmp_path: Path, s3: S3Server
) -> None:
    settings = {
        "LIVEDEX_DATABASE_URL": owner_url,
        "LIVEDEX_BLOB_URL": f"s3://{BUCKET}/contents",
        **s3.environment,
    }
    s3.answer = lambda request: error_response(403, "AccessDenied")
    done = await asyncio.to_thread(livedex, tmp_path, "run", "chunk", **settings)
    line = only_line(done)
    assert f"LIVEDEX_BLOB_URL: s3://{BUCKET}/contents: access is denied" in line
    assert SECRET not in line


async def test_commands_that_only_look_ask_nothing_of_the_storage(
    owner_url: str, tmp_path: Path, s3: S3Server
) -> None:
    settings = {
        "LIVEDEX_DATABASE_URL": owner_url,
        "LIVEDEX_BLOB_URL": f"s3://{BUCKET}/contents",
        **s3.environment,
    }
    done = await asyncio.to_thread(livedex, tmp_path, "status", **settings)
    assert done.returncode == 0
    assert s3.requests == []
