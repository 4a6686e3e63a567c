"""Waiting for accepted changes, on a real database."""

import asyncio
import base64
import hashlib
import json
import time

import pytest
from asyncpg import Connection

from livedex.pipeline.api.sync_waiter import SyncWaiter, open_sync_waiter
from livedex.pipeline.ingest.sync_token import make_sync_token
from livedex.pipeline.model import Reader
from livedex.pipeline.store.postgres.statements import sql

LISTENING = (
    "select count(*) from pg_stat_activity where query ilike 'listen%' and datname = "
    "current_database()"
)


async def until_listening(owner: Connection, count: int) -> None:
    """Until so many connections listen."""
    async with asyncio.timeout(20):
        while await owner.fetchval(LISTENING) != count:  # another process's state
            await asyncio.sleep(0.01)


def token(version: int, document_id: str = "a") -> str:
    return make_sync_token("default", document_id, version)


async def state_of(http, version, **params):
    answer = await http.get(f"/v1/sync/{token(version)}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["state"]


async def test_a_change_goes_from_pending_to_synced_and_is_superseded_by_a_newer_one(http, filling):
    assert await state_of(http, 2) == "pending", "published, and no stage has seen it yet"
    await filling.accept("a", 2)
    assert await state_of(http, 2) == "pending"
    await filling.sync("a", 2, "text")
    assert (await state_of(http, 1), await state_of(http, 2), await state_of(http, 3)) == (
        "superseded",
        "synced",
        "pending",
    )
    await filling.delete("a", 3)
    assert (await state_of(http, 2), await state_of(http, 3)) == ("superseded", "synced")


async def test_a_change_that_a_newer_one_overtook_is_superseded(http, filling):
    await filling.accept("a", 5)
    assert await state_of(http, 4) == "superseded"


async def test_a_change_among_the_dead_letters_is_dead(http, filling, owner):
    await filling.sync("a", 1, "text")
    await filling.accept("a", 2)
    await owner.execute(sql("mark_dead"), "default", "a", 2, "why", "", None, True, None, None)
    assert (await state_of(http, 1), await state_of(http, 2)) == ("synced", "dead")


@pytest.mark.parametrize(
    "change",
    [lambda t: t[:-2], lambda t: t + "AAAA", lambda t: "A" + t[1:], lambda t: t.swapcase()],
)
async def test_a_token_that_was_not_given_is_unknown(http, change):
    answer = await http.get(f"/v1/sync/{change(token(1))}")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("application/problem+json")


@pytest.mark.parametrize(
    "body",
    [
        5,
        None,
        {"a": 1, "b": 2},
        ["x", None],
        ["x"],
        ["x", 1, 2],
        [1, 2],
        [None, 2],
        ["x", 1e300],
        ["x", -1],
        ["x", True],
        ["x", 2**63],
        ["x\x00", 1],
        ["", 1],
    ],
)
async def test_a_token_that_somebody_made_up_is_unknown_too(http, body):
    raw = json.dumps(body).encode()
    check = hashlib.sha256(b"token\x00default\x00" + raw).digest()[:8]
    made_up = base64.urlsafe_b64encode(check + raw).decode().rstrip("=")
    assert (await http.get(f"/v1/sync/{made_up}")).status_code == 404
    assert (
        await http.post("/v1/search", json={"query": "x", "mode": "keyword", "after": made_up})
    ).status_code == 422


async def test_a_wait_ends_with_the_change(http, filling):
    waiting = asyncio.create_task(state_of(http, 1, wait_s=20))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await filling.sync("a", 1, "text")
    begin = time.monotonic()
    assert await waiting == "synced"
    assert time.monotonic() - begin < 5


async def test_a_wait_ends_with_its_time(http):
    begin = time.monotonic()
    assert await state_of(http, 1, wait_s=0.2) == "pending"
    assert time.monotonic() - begin >= 0.2


async def test_all_waits_share_one_connection_that_ends_with_the_waiter(
    documents, filling, owner_url, owner
):
    async with open_sync_waiter(documents, owner_url) as waiter:
        waits = [
            asyncio.create_task(waiter.wait(Reader("default"), f"d{n}", 1, 20)) for n in range(20)
        ]
        await until_listening(owner, 1)
        for n in range(20):
            await filling.sync(f"d{n}", 1, f"text {n}")
        assert set(await asyncio.gather(*waits)) == {"synced"}
        assert await owner.fetchval(LISTENING) == 1
    await until_listening(owner, 0)


async def test_a_wake_comes_before_the_next_look(
    documents, filling, owner_url, owner: Connection, monkeypatch
):
    """With the looking-again put off, only the wake can end the wait."""
    monkeypatch.setattr("livedex.pipeline.api.sync_waiter._POLL_INTERVAL_S", 25.0)
    monkeypatch.setattr("livedex.pipeline.api.sync_waiter._POLL_INTERVAL_LISTENING_S", 25.0)
    async with open_sync_waiter(documents, owner_url) as waiter:
        waiting = asyncio.create_task(waiter.wait(Reader("default"), "a", 1, 30))
        await until_listening(owner, 1)
        await filling.sync("a", 1, "text")
        async with asyncio.timeout(10):
            assert await waiting == "synced"


async def test_a_wait_goes_on_without_the_connection_that_wakes(documents, filling):
    waiter = SyncWaiter(documents, "postgresql://nobody@127.0.0.1:1/nothing")
    try:
        waiting = asyncio.create_task(waiter.wait(Reader("default"), "a", 1, 20))
        await asyncio.sleep(0.05)
        await filling.sync("a", 1, "text")
        assert await waiting == "synced"
    finally:
        await waiter.close()
