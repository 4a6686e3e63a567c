"""Subscribers and what they were not told, through the program, on a database of the test's own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from livedex.pipeline.model import DEFAULT_TENANT, Reader
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.notification_outbox import NotificationOutbox
from livedex.pipeline.store.subscriber_store import SubscriberConfig, SubscriberStore
from tests.support.builders.document_states import DocumentBuilder
from tests.support.programs.command import LivedexCommand, only_line

ALL = ("synced", "deleted", "dead")


@pytest.fixture
def program(tmp_path: Path, owner_url: str) -> LivedexCommand:
    return LivedexCommand(tmp_path, owner_url)


@pytest.fixture
async def filling(database: Database) -> DocumentBuilder:
    """A store; its tenant has a subscriber that is told and one that reads."""
    await SubscriberStore(database).configure(
        [
            SubscriberConfig(DEFAULT_TENANT, "shop", ALL, (), False),
            SubscriberConfig(DEFAULT_TENANT, "warehouse", ALL, (), True),
        ]
    )
    return DocumentBuilder(database)


async def bury_for(database: Database, name: str) -> DeadLetter:
    """What waits for a subscriber is a dead letter now."""
    outbox = NotificationOutbox(database)
    for notice in await outbox.read(DEFAULT_TENANT, name, 100):
        await outbox.bury(
            notice, reason="refused", detail="subscriber shop was not told", attempts=10
        )
    [letter] = [each for each in await DeadLetterStore(database).all() if each.is_notification]
    return await DeadLetterStore(database).find(letter.letter_id)


async def test_subscribers_are_listed_with_what_waits_and_what_is_wrong(
    program: LivedexCommand, filling: DocumentBuilder, database: Database
) -> None:
    assert await program.told("subscribers", "list") != "no subscribers\n"
    await filling.sync("a", 1, "text")
    await SubscriberStore(database).stop(
        DEFAULT_TENANT, "shop", "shop.example answered with HTTP 410"
    )
    listed = json.loads(await program.told("subscribers", "list", "--json"))["subscribers"]
    assert [(each["name"], each["state"], each["waiting"], each["reads"]) for each in listed] == [
        ("shop", "stopped", 1, False),
        ("warehouse", "ok", 1, True),
    ]
    assert "HTTP 410" in await program.told("subscribers", "list")
    assert await program.told("subscribers", "resume", "shop") == "resumed shop; 1 pending\n"
    assert (await SubscriberStore(database).find("shop")).state == "ok"


async def test_one_that_livedex_toml_names_is_listed_before_anything_was_started(
    program: LivedexCommand, database: Database
) -> None:
    assert await program.told("subscribers", "list") == "no subscribers\n"
    (program.folder / "livedex.toml").write_text(
        '[[subscriber]]\nname = "shop"\nevents = ["dead"]\n'
    )
    [listed] = json.loads(await program.told("subscribers", "list", "--json"))["subscribers"]
    assert (
        listed["name"],
        listed["state"],
        listed["events"],
        listed["waiting"],
        listed["problem"],
    ) == (
        "shop",
        "not started",
        ["dead"],
        0,
        None,
    )
    assert "subscriber:shop  not started" in await program.told("status")
    await SubscriberStore(database).configure(
        [SubscriberConfig(DEFAULT_TENANT, "shop", ("dead",), (), True)]
    )
    [listed] = json.loads(await program.told("subscribers", "list", "--json"))["subscribers"]
    assert listed["state"] == "ok"


async def test_the_status_says_of_a_subscriber_what_the_list_says(
    program: LivedexCommand, filling: DocumentBuilder, database: Database
) -> None:
    await SubscriberStore(database).refused(
        DEFAULT_TENANT, "shop", "shop.example answered with HTTP 422"
    )
    states = {
        each["name"]: each["state"]
        for each in json.loads(await program.told("subscribers", "list", "--json"))["subscribers"]
    }
    assert states == {"shop": "failing", "warehouse": "ok"}
    said = await program.told("status")
    assert (
        "subscriber:shop       failing: shop.example answered with HTTP 422" in said
        and "subscriber:warehouse  ok" in said
    )


@pytest.mark.parametrize("command", ["resume", "read"])
async def test_an_unknown_subscriber_is_named_in_one_line(
    program: LivedexCommand, filling: DocumentBuilder, command: str
) -> None:
    assert "nobody" in only_line(await program.run("subscribers", command, "nobody"))


async def test_one_that_is_told_at_its_url_is_not_read_for(
    program: LivedexCommand, filling: DocumentBuilder, database: Database
) -> None:
    await filling.sync("a", 1, "text")
    assert "url" in only_line(await program.run("subscribers", "read", "shop"))
    assert len(await NotificationOutbox(database).read(DEFAULT_TENANT, "shop", 10)) == 1


async def test_reading_prints_an_event_a_line_in_order_and_what_was_printed_is_gone(
    program: LivedexCommand, filling: DocumentBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in range(1, 8):
        await filling.sync("ü\u2028.md", version, f"text {version}")
    await filling.delete("ü\u2028.md", 8)
    lines = (await program.told("subscribers", "read", "warehouse")).encode().splitlines()
    events = [json.loads(line) for line in lines]
    assert [(event["type"], event["subject"], event["data"]["version"]) for event in events] == [
        *(("livedex.synced", "ü\u2028.md", version) for version in range(1, 8)),
        ("livedex.deleted", "ü\u2028.md", 8),
    ]
    assert await program.told("subscribers", "read", "warehouse") == ""


async def test_a_reader_that_goes_away_gets_again_what_it_did_not_take(
    program: LivedexCommand, filling: DocumentBuilder, database: Database, tmp_path: Path
) -> None:
    """`head` closes the pipe after its first line."""
    async with database.tenant(DEFAULT_TENANT) as connection:
        await connection.execute(
            "insert into documents (tenant_id, document_id, state, version) select "
            "'default', 'd' || n, 'synced', 1 from generate_series(0, 2999) n"
        )
        await connection.execute(
            "insert into notices (tenant_id, subscriber, event_id, kind, document_id, "
            "version, data) "
            "select 'default', 'warehouse', gen_random_uuid(), 'synced', 'd' || n, 1, "
            '\'{"state": "synced"}\' from generate_series(0, 2999) n'
        )
    script = f"{sys.executable} -m livedex.cli.main subscribers read warehouse | head -n 1"
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment(program),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert json.loads(done.stdout)["subject"] == "d0"
    left = await NotificationOutbox(database).read(DEFAULT_TENANT, "warehouse", 5000)
    rest = (await program.told("subscribers", "read", "warehouse")).splitlines()
    assert 2000 <= len(rest) == len(left)
    assert json.loads(rest[-1])["subject"] == "d2999"


def environment(program: LivedexCommand) -> dict[str, str]:
    """Of a program that is started here."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("LIVEDEX_")
    } | {"LIVEDEX_DATABASE_URL": program.url}


async def test_following_prints_what_comes(
    program: LivedexCommand, filling: DocumentBuilder, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "livedex.cli.main",
        "subscribers",
        "read",
        "warehouse",
        "--follow",
        cwd=tmp_path,
        env=environment(program),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        for version in (1, 2):
            await filling.sync("a", version, f"text {version}")
            async with asyncio.timeout(60):
                assert json.loads(await process.stdout.readline())["data"]["version"] == version
    finally:
        process.terminate()
        assert await process.wait() == 143


async def test_status_shows_what_waits_and_waits_for_none_of_it(
    program: LivedexCommand, filling: DocumentBuilder, database: Database
) -> None:
    assert json.loads(await program.told("status", "--json"))["stages"]["notify"] == {
        "waiting": 0,
        "oldest_s": 0.0,
    }
    await filling.sync("a", 1)
    assert json.loads(await program.told("status", "--json"))["stages"]["notify"]["waiting"] == 2
    assert (await program.run("status", "--wait", "5")).returncode == 0


async def test_a_notice_that_is_dead_says_nothing_against_its_document(
    program: LivedexCommand, filling: DocumentBuilder, database: Database
) -> None:
    await filling.sync("a", 1)
    letter = await bury_for(database, "shop")
    found = await DocumentQueries(database).get(Reader(DEFAULT_TENANT), "a")
    assert found is not None and found.state == "synced"
    assert await DocumentQueries(database).sync_state(Reader(DEFAULT_TENANT), "a", 1) == "synced"
    assert (await program.run("status", "--wait", "5")).returncode == 0, "the index is whole"
    [listed] = json.loads(await program.told("dead", "list", "--json"))["dead"]
    assert (
        listed["id"],
        listed["stage"],
        listed["document_id"],
        listed["reason"],
        listed["attempts"],
    ) == (
        letter.letter_id,
        "notify",
        "a",
        "refused",
        10,
    )
    shown = json.loads(await program.told("dead", "show", letter.letter_id, "--json"))
    assert (shown["place"], json.loads(shown["payload"])["type"]) == (
        {"subscriber": "shop"},
        "livedex.synced",
    )
    assert await program.told("dead", "drop", letter.letter_id) == "dropped 1 letter\n"
    found = await DocumentQueries(database).get(Reader(DEFAULT_TENANT), "a")
    assert found is not None and found.state == "synced"


async def test_a_replay_tells_it_again_with_its_id_also_when_the_document_has_gone_on(
    program: LivedexCommand, filling: DocumentBuilder, database: Database, owner: asyncpg.Connection
) -> None:
    await filling.sync("a", 1, "text")
    letter = await bury_for(database, "shop")
    await filling.sync("a", 2, "text 2")
    assert await program.told("dead", "replay", "--all") == "replayed 1 letter\n"
    assert await DeadLetterStore(database).all() == []
    again = [
        each
        for each in await NotificationOutbox(database).read(DEFAULT_TENANT, "shop", 10)
        if each.version == 1
    ]
    assert [(each.webhook_id, each.encode()) for each in again] == [
        (letter.headers["webhook-id"], letter.payload)
    ]
    assert await owner.fetchval("select count(*) from queue") == 0


async def test_a_letter_of_the_same_version_is_not_kept_dead_by_what_a_subscriber_was_not_told(
    program: LivedexCommand, filling: DocumentBuilder, database: Database, owner: asyncpg.Connection
) -> None:
    await filling.accept("a", 5)
    await DeadLetterStore(database).bury(
        DeadLetter(
            "4f1c",
            DEFAULT_TENANT,
            "embed",
            "a",
            5,
            "rejected",
            "why",
            1,
            "livedex.chunked",
            payload=b"{}",
        )
    )
    await bury_for(database, "shop")
    assert await program.told("dead", "replay", "4f1c") == "replayed 1 letter\n"
    assert await owner.fetchval("select dead_version from documents") is None


async def test_a_letter_for_a_subscriber_that_is_no_more_stays_where_it_is(
    program: LivedexCommand, filling: DocumentBuilder, database: Database
) -> None:
    await filling.sync("a", 1, "text")
    await bury_for(database, "shop")
    await SubscriberStore(database).configure([])
    async with database.tenant(DEFAULT_TENANT) as connection:
        await connection.execute("delete from subscribers where name = 'shop'")
    done = await program.run("dead", "replay", "--all")
    assert (done.returncode, done.stdout) == (
        1,
        "replayed 0 letters\n",
    ) and "subscriber shop" in done.stderr
    assert len(await DeadLetterStore(database).all()) == 1
