"""What a process knows of keys: little of it, not for long, and nothing that was revoked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from livedex.pipeline.access.api_key_cache import ENTRY_TTL_S, ApiKeyCache
from livedex.pipeline.access.key_format import GeneratedKey, generate_key
from livedex.pipeline.errors import OutageError
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.api_key_store import StoredKey


@dataclass
class Kept:
    """Keys as they are kept; counts what is asked. `gate` holds up answers until it is set."""

    keys: dict[str, StoredKey] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None
    error: Exception | None = None

    def add(self, **more: object) -> GeneratedKey:
        made = generate_key()
        self.keys[made.key_id] = replace(
            StoredKey(TenantId("acme"), made.sha256, ("search",), False, None, None), **more
        )
        return made

    async def find(self, key_id: str) -> StoredKey | None:
        self.asked.append(key_id)
        found = self.keys.get(key_id)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return found

    async def note_use(self, tenant_id: TenantId, key_id: str) -> None:
        self.used.append(key_id)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(kept: Kept, clock: Clock) -> ApiKeyCache:
    return ApiKeyCache(kept, clock)  # type: ignore[arg-type]


async def test_a_good_key_opens_its_tenant_and_is_looked_up_once(
    kept: Kept, ring: ApiKeyCache
) -> None:
    made = kept.add()
    for _ in range(5):
        holder = await ring.verify(made.key)
        assert holder is not None and (holder.key_id, holder.key.tenant_id) == (made.key_id, "acme")
    assert kept.asked == [made.key_id]


async def test_a_key_with_another_secret_opens_nothing(kept: Kept, ring: ApiKeyCache) -> None:
    made = kept.add()
    assert await ring.verify(made.key[:-1] + ("0" if made.key[-1] != "0" else "1")) is None


async def test_unknown_expired_and_revoked_keys_open_nothing_after_the_same_look_ups(
    kept: Kept, ring: ApiKeyCache
) -> None:
    for key in (generate_key(), kept.add(revoked=True), kept.add(expires_in_s=-1.0)):
        kept.asked.clear()
        assert await ring.verify(key.key) is None
        assert await ring.verify(key.key) is None
        assert kept.asked == [key.key_id]


async def test_a_key_expires_while_it_is_remembered(
    kept: Kept, ring: ApiKeyCache, clock: Clock
) -> None:
    made = kept.add(expires_in_s=2.0)
    assert await ring.verify(made.key) is not None
    clock.now += 2
    assert await ring.verify(made.key) is None
    assert kept.asked == [made.key_id]


async def test_a_revoked_key_opens_nothing_after_five_seconds_though_nobody_tells(
    kept: Kept, ring: ApiKeyCache, clock: Clock
) -> None:
    made = kept.add()
    assert await ring.verify(made.key) is not None
    kept.keys[made.key_id] = replace(kept.keys[made.key_id], revoked=True)
    clock.now += ENTRY_TTL_S
    assert ENTRY_TTL_S <= 5
    assert await ring.verify(made.key) is None


async def test_a_revoked_key_opens_nothing_once_it_is_told(kept: Kept, ring: ApiKeyCache) -> None:
    made, other = kept.add(), kept.add()
    assert await ring.verify(made.key) is not None and await ring.verify(other.key) is not None
    kept.keys[made.key_id] = replace(kept.keys[made.key_id], revoked=True)
    ring.forget(made.key_id)
    assert await ring.verify(made.key) is None
    assert await ring.verify(other.key) is not None
    assert kept.asked.count(other.key_id) == 1


async def test_an_answer_that_was_on_its_way_when_the_key_was_revoked_is_not_remembered(
    kept: Kept, ring: ApiKeyCache
) -> None:
    made, kept.gate = kept.add(), asyncio.Event()
    first = asyncio.create_task(ring.verify(made.key))
    while not kept.asked:
        await asyncio.sleep(0)
    kept.keys[made.key_id] = replace(kept.keys[made.key_id], revoked=True)
    ring.forget(made.key_id)
    kept.gate.set()
    await first
    assert await ring.verify(made.key) is None


async def test_many_that_ask_at_once_look_a_key_up_once(kept: Kept, ring: ApiKeyCache) -> None:
    made = kept.add()
    assert None not in await asyncio.gather(*(ring.verify(made.key) for _ in range(50)))
    assert kept.asked == [made.key_id]


async def test_an_outage_is_told_to_all_who_ask_and_not_remembered(
    kept: Kept, ring: ApiKeyCache
) -> None:
    made, kept.error = kept.add(), OutageError("database", "away")
    answers = await asyncio.gather(
        *(ring.verify(made.key) for _ in range(3)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [OutageError] * 3
    kept.error = None
    assert await ring.verify(made.key) is not None


async def test_that_a_key_is_used_is_noted_at_most_once_a_minute(
    kept: Kept, ring: ApiKeyCache, clock: Clock
) -> None:
    made, fresh = kept.add(), kept.add(used_before_s=10.0)
    for _ in range(100):
        clock.now += 1.0
        await ring.verify(made.key)
        await ring.verify(fresh.key)
    await ring.close()
    assert kept.used == [made.key_id, made.key_id]


async def test_what_is_remembered_is_bounded(
    kept: Kept, ring: ApiKeyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.pipeline.access.api_key_cache._MOST", 10)
    for _ in range(50):
        await ring.verify(generate_key().key)
    assert len(ring._seen) == 10
