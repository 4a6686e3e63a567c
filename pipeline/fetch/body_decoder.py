"""A body as it comes, taken apart within bounds: neither what came nor what it unpacks to is ever
larger in memory.
"""

from __future__ import annotations

import asyncio
import io
import zlib

from livedex.pipeline.errors import NoTextError, RejectedError, RetryableError

_PIECE = 65_536
_BREATH = 1_048_576  # unpacked without giving way to others
_MARGIN = 65_536  # that packing may add to what cannot be packed
_GZIP = 16 + zlib.MAX_WBITS


class ContentTooLargeError(NoTextError):
    """The content of a URL is larger than a document may be.

    Args:
        most_bytes: that a document may have.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(
            "too_large",
            f"it has more than LIVEDEX_MAX_DOCUMENT_BYTES ({most_bytes}): split it or raise the "
            "limit.",
        )


class BodyDecoder:
    """Takes a body.

    Args:
        encoding: Content-Encoding of the answer; we ask for gzip and nothing else.
        most_bytes: of the content, and about as many on the wire.

    Raises:
        RejectedError: another encoding than gzip, or several.
    """

    def __init__(self, encoding: str, most_bytes: int) -> None:
        steps = [
            step
            for part in encoding.lower().split(",")
            if (step := part.strip()) not in ("", "identity")
        ]
        if steps not in ([], ["gzip"], ["x-gzip"]):
            raise RejectedError(
                "the answer is packed in a way that was not asked for", reason="not_fetched"
            )
        self._member = zlib.decompressobj(_GZIP) if steps else None
        self._packed = bool(steps)
        self._most = most_bytes
        self._content = io.BytesIO()  # hands out what it holds without a copy
        self._came = 0

    @property
    def size(self) -> int:
        """Bytes of content so far."""
        return self._content.tell()

    async def feed(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            NoTextError: it is too large.
            RetryableError: it is not packed as it says.
            ContentTooLargeError: there is more than a document may have.
        """
        self._came += len(data)
        if self._came > self._most + _MARGIN:
            raise ContentTooLargeError(self._most)
        if not self._packed:
            self._keep(data)
            return
        try:
            await self._unpack(data)
        except zlib.error as exc:
            raise RetryableError("the answer is not packed as it says") from exc

    def content(self) -> bytes:
        """All of it, once the last byte was taken.

        Raises:
            RetryableError: its end is missing.
        """
        if self._packed and self._came and self._member is not None:
            raise RetryableError("the answer ended before what is packed in it")
        return self._content.getvalue()

    async def _unpack(self, data: bytes) -> None:
        work, more = 0, False
        while data or more:
            if self._member is None:  # a further member, or zeros that fill up the last block
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._member = zlib.decompressobj(_GZIP)
            piece = self._member.decompress(data, _PIECE)
            self._keep(piece)
            ended = self._member.eof
            data = self._member.unused_data if ended else self._member.unconsumed_tail
            more = len(piece) == _PIECE and not ended
            if ended:
                self._member = None
            work += _PIECE if ended else len(piece)  # members may be many and empty
            if work > _BREATH:
                work = 0
                await asyncio.sleep(0)

    def _keep(self, data: bytes) -> None:
        if self._content.tell() + len(data) > self._most:
            raise ContentTooLargeError(self._most)
        self._content.write(data)
