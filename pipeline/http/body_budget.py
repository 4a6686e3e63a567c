"""Limits concurrent requests and the memory for their bodies.

A request without a free slot waits briefly, and then gets 503 with `Retry-After`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.http.bodies import BodyTooLargeError, content_length, require_uncompressed
from livedex.pipeline.http.body_spool import BodySpool, SpooledBody

WAIT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 60.0
MAX_IN_MEMORY_BYTES = 256 * 1024
"""In-memory part of an incomplete body; larger bodies are spooled to disk until they are
complete.
"""


class BodyBudget:
    """Limits the memory for request bodies. Bodies larger than `kept_bytes` are spooled to disk
    until they are complete.

    Args:
        requests: maximum number of concurrent requests, >= 1.
        room_bytes: memory for the beginnings of all bodies, at least twice `kept_bytes`; one owner
            may use half of it.
        large_bytes: memory for complete large bodies, at least the maximum size of a body.
        read_s: maximum seconds to receive a body; None: `READ_TIMEOUT_S`.
        kept_bytes: in-memory part of an incomplete body.
    """

    def __init__(
        self,
        *,
        requests: int,
        room_bytes: int,
        large_bytes: int,
        read_s: float | None = None,
        kept_bytes: int = MAX_IN_MEMORY_BYTES,
    ) -> None:
        self._read_s = READ_TIMEOUT_S if read_s is None else read_s
        self._requests = requests
        self._room = room_bytes
        self._kept = kept_bytes
        self._large = BodySpool(large_bytes)
        self._taken = 0
        self._of_owner: defaultdict[str, int] = defaultdict(int)
        self._left = asyncio.Condition()

    @asynccontextmanager
    async def body(self, request: Request, most_bytes: int) -> AsyncIterator[bytes]:
        """Read the body of a request, and reserve its memory until the end of the block. Memory is
        reserved as bytes arrive, not for the announced size.

        Args:
            request: to read.
            most_bytes: maximum size.

        Raises:
            BodyTooLargeError: the body is larger than `most_bytes`.
            HTTPException: 408, the body took longer than `read_s`; 415, it is compressed.
            RetryableError: the memory is in use by other requests.
        """
        require_uncompressed(request)
        if (content_length(request) or 0) > most_bytes:
            raise BodyTooLargeError(most_bytes)
        owner = _owner(request)
        async with AsyncExitStack() as held:
            place = await held.enter_async_context(AsyncExitStack())
            try:
                async with asyncio.timeout(self._read_s):
                    begun, large, size = await self._arrived(request, most_bytes, owner, place)
            except TimeoutError as exc:
                raise HTTPException(
                    408,
                    f"the body did not arrive within {self._read_s:.0f} s: send less at once",
                ) from exc
            if large is not None:
                await held.enter_async_context(self._large.turn(size))
                begun = await large.whole()
                await place.aclose()
            await self._wait(lambda: self._requests > 0)
            self._requests -= 1
            held.push_async_callback(self._leave)
            yield begun

    async def _arrived(
        self, request: Request, most_bytes: int, owner: str, place: AsyncExitStack
    ) -> tuple[bytes, SpooledBody | None, int]:
        """Return the body, or its spool file, and its size.

        Raises:
            BodyTooLargeError: the body is larger than `most_bytes`.
        """
        begun, large, size = bytearray(), None, 0
        room = await place.enter_async_context(AsyncExitStack())
        async for part in request.stream():
            size += len(part)
            if size > most_bytes:
                raise BodyTooLargeError(most_bytes)
            if large is None:
                await self._wait(partial(self._fits, owner, len(part)))
                self._take(owner, len(part))
                room.push_async_callback(self._give_back, owner, len(part))
            begun += part
            if len(begun) > self._kept:
                if large is None:
                    large = await place.enter_async_context(self._large.place(owner))
                await large.add(begun)
                begun = bytearray()
                await room.aclose()
        if large is not None and begun:
            await large.add(begun)
        return (bytes(begun) if large is None else b""), large, size

    def _take(self, owner: str, size: int) -> None:
        self._taken += size
        self._of_owner[owner] += size

    async def _give_back(self, owner: str, size: int) -> None:
        self._taken -= size
        self._of_owner[owner] -= size
        if not self._of_owner[owner]:
            del self._of_owner[owner]
        async with self._left:
            self._left.notify_all()

    async def _leave(self) -> None:
        self._requests += 1
        async with self._left:
            self._left.notify_all()

    def _fits(self, owner: str, size: int) -> bool:
        """Return whether memory is free for a part; one owner may use half of the memory."""
        return self._taken + size <= self._room and self._of_owner[owner] + size <= self._room // 2

    async def _wait(self, is_free: Callable[[], bool]) -> None:
        if is_free():
            return
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S), self._left:
                await self._left.wait_for(is_free)
        except TimeoutError as exc:
            raise RetryableError("too many concurrent requests", retry_after_s=2) from exc


def _owner(request: Request) -> str:
    """Return the owner of a body: the tenant, or the client's address before authentication."""
    caller = getattr(request.state, "caller", None)
    return (
        f"tenant {caller.tenant_id}"
        if caller is not None
        else f"address {request.client.host if request.client else ''}"
    )
