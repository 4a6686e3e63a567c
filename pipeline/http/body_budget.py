"""How much is let in at once: requests, and the bytes of their bodies.

Whoever finds no room waits for a moment and is then asked to come again.
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
from livedex.pipeline.http.bodies import body_too_large, content_length, require_uncompressed
from livedex.pipeline.http.body_spool import BodySpool, SpooledBody

WAIT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 60.0
MAX_IN_MEMORY_BYTES = 256 * 1024
"""Of a body that is still coming; what is larger waits on disk until it is whole."""


class BodyBudget:
    """Room for bodies in memory. What is larger than `MAX_IN_MEMORY_BYTES` waits on disk until it
    is whole.

    Args:
        requests: at once, >= 1.
        room_bytes: of the beginnings of all bodies together, half of them of one owner; twice
            `kept_bytes` must fit.
        large_bytes: of large bodies that are in memory at once; the largest that is allowed must
            fit.
        read_s: the longest that a body may take to come; None: `READ_TIMEOUT_S`.
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
        """The body of a request, which has its room for as long as the block lasts. Room is taken
        as bytes arrive: what is only announced takes none.

        Raises:
            HTTPException: 413, the body is larger than `most_bytes`; 408, it took longer than
            `read_s` to come; 415, it is compressed.
            RetryableError: too much is under way.
        """
        require_uncompressed(request)
        if (content_length(request) or 0) > most_bytes:
            raise body_too_large(most_bytes)
        owner = _owner(request)
        async with AsyncExitStack() as held:
            place = await held.enter_async_context(AsyncExitStack())
            try:
                async with asyncio.timeout(self._read_s):
                    begun, large, size = await self._arrived(request, most_bytes, owner, place)
            except TimeoutError as exc:
                raise HTTPException(
                    408, f"the body did not come within {self._read_s:.0f} s: send less at once"
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
        """The body, or where on disk it is, and its size."""
        begun, large, size = bytearray(), None, 0
        room = await place.enter_async_context(AsyncExitStack())
        async for part in request.stream():
            size += len(part)
            if size > most_bytes:
                raise body_too_large(most_bytes)
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
        """Whether there is room for a part; one owner leaves half of it to others."""
        return self._taken + size <= self._room and self._of_owner[owner] + size <= self._room // 2

    async def _wait(self, is_free: Callable[[], bool]) -> None:
        if is_free():
            return
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S), self._left:
                await self._left.wait_for(is_free)
        except TimeoutError as exc:
            raise RetryableError("too many requests are under way", retry_after_s=2) from exc


def _owner(request: Request) -> str:
    """Whose body it is: the tenant's, or of the address that sent it where nobody is known yet."""
    caller = getattr(request.state, "caller", None)
    return (
        f"tenant {caller.tenant_id}"
        if caller is not None
        else f"address {request.client.host if request.client else ''}"
    )
