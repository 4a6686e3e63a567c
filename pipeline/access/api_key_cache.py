"""A cache of API keys, so that most requests need no database look-up.

Invariant: an entry is at most `ENTRY_TTL_S` old, even if the notification of a revoked key is lost.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from livedex.pipeline.access.key_format import key_digest, parse_key_id
from livedex.pipeline.errors import LivedexError
from livedex.pipeline.store.api_key_store import REVOKED_CHANNEL, ApiKeyStore, StoredKey
from livedex.pipeline.store.postgres.listener import listen

log = logging.getLogger(__name__)

ENTRY_TTL_S = 5.0
EMPTY_TTL_S = 1.0
"""Time for which a process without notifications assumes that no key exists."""
_MOST = 10_000  # cached keys, including unknown ones
_NOTED_EVERY_S = 60.0
_NOBODY = bytes(32)  # compared for unknown keys, so that they take the same time


@dataclass(frozen=True, slots=True)
class VerifiedKey:
    """A valid key.

    Attributes:
        key_id: the part of the key that is not secret.
        key: as stored.
    """

    key_id: str
    key: StoredKey


@dataclass(frozen=True, slots=True)
class _CacheEntry:
    """A cached look-up.

    Attributes:
        key: None: the key is unknown.
        until: end of the entry's validity, by the monotonic clock.
        expires: expiry of the key, by the monotonic clock.
    """

    key: StoredKey | None
    until: float
    expires: float


class ApiKeyCache:
    """Verifies API keys.

    Args:
        keys: the store.
        clock: returns monotonic seconds.

    Attributes:
        known_empty: no key existed at the last look-up, and no notification arrived since.
    """

    def __init__(self, keys: ApiKeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._seen: OrderedDict[str, _CacheEntry] = OrderedDict()
        self._asking: dict[str, asyncio.Task[_CacheEntry]] = {}
        self._noted: OrderedDict[str, float] = OrderedDict()
        self._noting: set[asyncio.Task[None]] = set()
        self._any_made = False
        self.known_empty = False
        self._none_until = float("-inf")
        self._told = 0  # number of notifications about changed keys

    async def verify(self, key: str) -> VerifiedKey | None:
        """Return a valid key; None: it is unknown, expired or revoked. Takes the same time in each
        case.

        Args:
            key: from a request.

        Raises:
            OutageError: the database is unavailable.
            RetryableError: a retry can succeed.
        """
        key_id = parse_key_id(key)
        if key_id is None:
            return None
        seen = await self._look(key_id)
        same = hmac.compare_digest(seen.key.sha256 if seen.key else _NOBODY, key_digest(key))
        if seen.key is None or not same or seen.key.revoked or seen.expires <= self._clock():
            return None
        self._note_use(key_id, seen.key)
        return VerifiedKey(key_id, seen.key)

    async def was_any_made(self) -> bool:
        """Return whether a key was ever created, including revoked, expired and deleted ones.

        Raises:
            OutageError: the database is unavailable.
            RetryableError: a retry can succeed.
        """
        if not self._any_made and self._none_until <= self._clock():
            told, begin = self._told, self._clock()
            self._any_made = await self._keys.ever_made()
            if told == self._told:
                self._none_until = begin + EMPTY_TTL_S
                self.known_empty = not self._any_made
        return self._any_made

    def forget(self, key_id: str) -> None:
        """Drop the entry of a key; the next request looks it up again."""
        self._doubt_none()
        self._seen.pop(key_id, None)
        self._asking.pop(key_id, None)

    def invalidate_all(self) -> None:
        """Drop all entries."""
        self._doubt_none()
        self._seen.clear()
        self._asking.clear()

    def _doubt_none(self) -> None:
        self._told += 1
        self._none_until = float("-inf")
        self.known_empty = False

    async def close(self) -> None:
        """Wait for pending writes of last-use times."""
        await asyncio.gather(*self._noting, return_exceptions=True)

    async def _look(self, key_id: str) -> _CacheEntry:
        seen = self._seen.get(key_id)
        if seen is not None and self._clock() < seen.until:
            return seen
        task = self._asking.get(key_id)
        if task is None:
            task = self._asking[key_id] = asyncio.create_task(self._ask(key_id))
            task.add_done_callback(lambda done: self._keep(key_id, done))
        return await asyncio.shield(task)

    async def _ask(self, key_id: str) -> _CacheEntry:
        begin = self._clock()
        key = await self._keys.find(key_id)
        lasts_s = float("inf") if key is None or key.expires_in_s is None else key.expires_in_s
        return _CacheEntry(key, begin + ENTRY_TTL_S, begin + lasts_s)

    def _keep(self, key_id: str, done: asyncio.Task[_CacheEntry]) -> None:
        """Cache a look-up, unless the key was revoked during the look-up."""
        if self._asking.get(key_id) is done:
            del self._asking[key_id]
            if not done.cancelled() and done.exception() is None:
                self._seen[key_id] = done.result()
                self._seen.move_to_end(key_id)
                while len(self._seen) > _MOST:
                    self._seen.popitem(last=False)
        elif not done.cancelled():
            done.exception()  # mark it as retrieved: a waiting request may have been cancelled

    def _note_use(self, key_id: str, key: StoredKey) -> None:
        """Record the use of a key in the background, at most once a minute."""
        now = self._clock()
        if key.used_before_s is not None and key.used_before_s < _NOTED_EVERY_S:
            return
        if now - self._noted.get(key_id, -_NOTED_EVERY_S) < _NOTED_EVERY_S:
            return
        self._noted[key_id] = now
        self._noted.move_to_end(key_id)
        while len(self._noted) > _MOST:
            self._noted.popitem(last=False)
        task = asyncio.create_task(self._write_use(key_id, key))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _write_use(self, key_id: str, key: StoredKey) -> None:
        try:
            await self._keys.note_use(key.tenant_id, key_id)
        except LivedexError as exc:
            log.debug("the use of key %s was not recorded: %s", key_id, exc)


@asynccontextmanager
async def open_api_key_cache(keys: ApiKeyStore, url: str) -> AsyncIterator[ApiKeyCache]:
    """Open a cache that is notified of revoked keys, and close it at the end of the block.

    Args:
        keys: the store.
        url: of the database, for the connection that listens.
    """
    ring = ApiKeyCache(keys)
    async with listen(url, REVOKED_CHANNEL, ring.forget, ring.invalidate_all):
        try:
            yield ring
        finally:
            await ring.close()
