"""Limits over HTTP and over several processes that share a database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from livedex.pipeline.access.concurrency_limiter import open_concurrency_limiter
from livedex.pipeline.access.credential_limiter import CredentialLimiter
from livedex.pipeline.access.rate_limiter import RateLimiter
from livedex.pipeline.search.answer import SearchResult
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.rate_limit_store import SLOT_LEASE_S, RateLimitStore
from tests.support.http.app_client import asgi_client
from tests.support.http.keyed_api import authenticated_api


async def test_two_processes_let_in_a_minute_s_requests_together_and_say_so(
    database: Database, owner_url: str, new_key: Callable[..., Any]
) -> None:
    key, other = (
        {"X-API-Key": (await new_key("acme")).key},
        {"X-API-Key": (await new_key("acme")).key},
    )
    limits = [CredentialLimiter(RateLimiter(RateLimitStore(database), 30), None) for _ in range(2)]
    async with (
        authenticated_api(database, owner_url, limits=limits[0]) as one,
        asgi_client(one) as first,
        authenticated_api(database, owner_url, limits=limits[1]) as two,
        asgi_client(two) as second,
    ):
        answers = [await http.get("/v1/documents", headers=key) for http in (first, second) * 25]
        good = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert 30 <= len(good) <= 32 and len(good) + len(refused) == 50
        assert {answer.headers["ratelimit-policy"] for answer in answers} == {
            '"requests";q=30;w=60'
        }
        assert good[0].headers["ratelimit"].startswith('"requests";r=29;t=')
        assert refused[-1].json()["type"] == "urn:livedex:problem:too-many-requests"
        seconds = int(refused[-1].headers["retry-after"])
        assert (
            1 <= seconds <= 3 and refused[-1].headers["ratelimit"] == f'"requests";r=0;t={seconds}'
        )
        assert (await first.get("/v1/documents", headers=other)).status_code == 200


class Slow:
    """Searches that take until `go` is set; `under_way` are begun."""

    def __init__(self) -> None:
        self.go, self.under_way = asyncio.Event(), 0

    async def search(self, tenant_id: str, request: Any) -> SearchResult:
        self.under_way += 1
        await self.go.wait()
        return SearchResult([], [], 1.0)


async def test_two_processes_let_in_no_more_at_once_than_one_may(
    database: Database, owner_url: str, new_key: Callable[..., Any]
) -> None:
    key, slow = {"X-API-Key": (await new_key("acme")).key}, Slow()
    async with (
        open_concurrency_limiter(RateLimitStore(database), 4) as here,
        open_concurrency_limiter(RateLimitStore(database), 4) as there,
        authenticated_api(
            database, owner_url, limits=CredentialLimiter(None, here), engine=slow
        ) as one,
        asgi_client(one) as first,
        authenticated_api(
            database, owner_url, limits=CredentialLimiter(None, there), engine=slow
        ) as two,
        asgi_client(two) as second,
    ):
        asked = [
            asyncio.create_task(
                http.post("/v1/search", json={"query": "a", "mode": "keyword"}, headers=key)
            )
            for http in (first, second) * 5
        ]
        while sum(task.done() for task in asked) < 6:
            await asyncio.sleep(0.01)
        assert slow.under_way == 4
        refused = [task.result() for task in asked if task.done()]
        assert {answer.status_code for answer in refused} == {429}
        assert (
            refused[0].headers["ratelimit-policy"] == '"concurrency";q=4;qu="concurrent-requests"'
        )
        assert refused[0].headers["retry-after"] == "1"
        slow.go.set()
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [200] * 4 + [429] * 6
        again = await asyncio.gather(
            *(
                http.post("/v1/search", json={"query": "a", "mode": "keyword"}, headers=key)
                for http in (second,) * 4
            )
        )
        assert [answer.status_code for answer in again] == [200] * 4


async def test_what_a_process_that_died_had_is_had_by_others(
    database: Database, owner: asyncpg.Connection
) -> None:
    dead, alive = RateLimitStore(database), RateLimitStore(database)
    assert await dead.take_slot("k", 1)
    assert not await alive.take_slot("k", 1)
    await owner.execute(
        "update request_slots set renewed_at = now() - make_interval(secs => $1)", SLOT_LEASE_S - 5
    )
    assert not await alive.take_slot("k", 1)
    await dead.renew_slots()
    await owner.execute(
        "update request_slots set renewed_at = renewed_at - make_interval(secs => $1)",
        SLOT_LEASE_S + 5,
    )
    assert await alive.take_slot("k", 1)
    await alive.release_slots({"k": 1})
    assert await owner.fetchval("select count(*) from request_slots") == 0


async def test_many_that_take_room_at_once_get_no_more_than_there_is(database: Database) -> None:
    processes = [RateLimitStore(database) for _ in range(8)]
    assert (
        sum(
            await asyncio.gather(
                *(process.take_slot("k", 5) for process in processes for _ in range(5))
            )
        )
        == 5
    )


async def test_a_bucket_fills_evenly_and_holds_one_minute(
    database: Database, owner: asyncpg.Connection
) -> None:
    shared = RateLimitStore(database)
    assert await shared.take_rate("k", 60, 50) == (50, 10)
    await owner.execute("update rate_buckets set filled_at = now() - interval '30 seconds'")
    granted, left = await shared.take_rate("k", 60, 60)
    assert granted == 40 and 0 <= left < 1
    await owner.execute("update rate_buckets set filled_at = now() - interval '1 day'")
    assert await shared.take_rate("k", 60, 100) == (60, 0)
    assert (await shared.take_rate("k", 60, 1))[0] == 0
