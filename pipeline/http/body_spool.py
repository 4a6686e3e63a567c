"""Spools large bodies to disk until they are complete, and limits how many are in memory."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO

from livedex.pipeline.errors import RetryableError

SPOOL_TIMEOUT_S = 20.0
MAX_SPOOLED_BODIES = 16
# on disk even if /tmp is in memory, as often in containers; the files have no names
_ON_DISK = "/var/tmp"
_TOO_MANY_BODIES = "too many large bodies at once"


class BodySpool:
    """Limits the spool files of incomplete bodies, and the memory for complete ones.

    Args:
        room_bytes: memory for complete bodies, at least the maximum size of a body.
        places: maximum number of spool files, >= 2; one owner may use half of them.
    """

    def __init__(self, room_bytes: int, places: int = MAX_SPOOLED_BODIES) -> None:
        self._room, self._places = room_bytes, places
        self._arriving: defaultdict[str, int] = defaultdict(int)
        self._left = asyncio.Condition()
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[SpooledBody]:
        """Open a spool file, and delete it at the end of the block.

        Args:
            owner: of the body.

        Raises:
            RetryableError: too many spool files exist, or the file cannot be created.
        """
        try:
            async with asyncio.timeout(SPOOL_TIMEOUT_S), self._left:
                await self._left.wait_for(lambda: self._has_place(owner))
        except TimeoutError as exc:
            raise RetryableError(_TOO_MANY_BODIES, retry_after_s=5) from exc
        self._arriving[owner] += 1
        try:
            with _file() as file:
                yield SpooledBody(file)
        except OSError as exc:
            raise RetryableError(
                f"a large body cannot be spooled: {exc.strerror or type(exc).__name__}",
                retry_after_s=5,
            ) from exc
        finally:
            self._arriving[owner] -= 1
            if not self._arriving[owner]:
                del self._arriving[owner]
            async with self._left:
                self._left.notify_all()

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Reserve memory until the end of the block, in the order of the calls.

        Args:
            size: bytes.

        Raises:
            RetryableError: the memory did not become free in time.
        """
        if self._line or size > self._room:
            await self._wait(size)
        else:
            self._room -= size
        try:
            yield
        finally:
            self._room += size
            self._wake()

    def _has_place(self, owner: str) -> bool:
        return (
            sum(self._arriving.values()) < self._places
            and self._arriving.get(owner, 0) < self._places // 2
        )

    async def _wait(self, size: int) -> None:
        mine = (size, asyncio.get_running_loop().create_future())
        self._line.append(mine)
        try:
            async with asyncio.timeout(SPOOL_TIMEOUT_S):
                await mine[1]
        except BaseException as exc:
            if mine in self._line:
                self._line.remove(mine)
            elif mine[1].done() and not mine[1].cancelled():  # granted, but the waiter is cancelled
                self._room += size
            self._wake()
            if isinstance(exc, TimeoutError):
                raise RetryableError(_TOO_MANY_BODIES, retry_after_s=5) from exc
            raise

    def _wake(self) -> None:
        while self._line and self._line[0][0] <= self._room:
            size, turn = self._line.popleft()
            if not turn.done():
                self._room -= size
                turn.set_result(None)


class SpooledBody:
    """The received part of a body on disk; file operations run in a thread."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    async def add(self, part: bytes | bytearray) -> None:
        """Write on."""
        await asyncio.to_thread(self._file.write, part)

    async def whole(self) -> bytes:
        """Return the complete body."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> bytes:
        self._file.seek(0)
        return self._file.read()


def _file() -> IO[bytes]:
    """Open an unnamed file in `TMPDIR`, else in /var/tmp, else in the default temporary folder."""
    is_said = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    place = (
        _ON_DISK
        if not is_said and os.path.isdir(_ON_DISK) and os.access(_ON_DISK, os.W_OK | os.X_OK)
        else None
    )
    return tempfile.TemporaryFile(dir=place)
