"""How much is let in at once: requests, and the bytes of their bodies. Whoever finds no room waits for a moment and is then asked to come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pipeline.api.bodies import declared_bytes, read_bounded, require_plain
from pipeline.errors import RetryableError

PATIENCE_S = 5.0
READ_S = 60.0


class Admission:
    """Room for bodies in memory.

    Args:
        requests: at once, >= 1.
        room_bytes: of all bodies together; the largest that is allowed must fit.
        read_s: the longest that a body may take to come; None: `READ_S`.
    """

    def __init__(self, *, requests: int, room_bytes: int, read_s: float | None = None) -> None:
        self._read_s = READ_S if read_s is None else read_s
        self._requests = requests
        self._bytes = room_bytes
        self._left = asyncio.Condition()

    @asynccontextmanager
    async def body(self, request: Request, most_bytes: int) -> AsyncIterator[bytes]:
        """The body of a request, which has its room for as long as the block lasts.

        Raises:
            HTTPException: 413, the body is larger than `most_bytes`; 408, it took longer than `read_s` to come; 415, it is compressed.
            RetryableError: too much is under way.
        """
        require_plain(request)
        declared = declared_bytes(request)
        size = most_bytes if declared is None else min(declared, most_bytes)
        await self._enter(size)
        try:
            try:
                async with asyncio.timeout(self._read_s):
                    body = await read_bounded(request, most_bytes)
            except TimeoutError as exc:
                raise HTTPException(408, f"the body did not come within {self._read_s:.0f} s: send less at once") from exc
            yield body
        finally:
            self._requests += 1
            self._bytes += size
            async with self._left:
                self._left.notify_all()

    async def _enter(self, size: int) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S), self._left:
                await self._left.wait_for(lambda: self._requests > 0 and self._bytes >= size)
                self._requests -= 1
                self._bytes -= size
        except TimeoutError as exc:
            raise RetryableError("too many requests are under way", retry_after_s=2) from exc
