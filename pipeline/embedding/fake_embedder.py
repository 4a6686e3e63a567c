"""A fake embedder for tests: needs no model, records requests, and fails on demand."""

from __future__ import annotations

import re
import zlib
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from livedex.pipeline.embedding.embedder import EmbedLimits, TextKind, Vector, Vectors

Script = Callable[[Sequence[str], int], Awaitable[Vectors | None]]


async def _as_usual(texts: Sequence[str], request: int) -> None:
    """Return the usual vectors."""


class FakeEmbedder:
    """Texts with common words get similar vectors: the sum of signed hashes of the words.

    Args:
        dimensions: length of a vector, >= 1; None: 64.
        limits: the bounds of one request.

    Attributes:
        texts: every embedded document text, in order.
        queries: every embedded query, including probes.
        sent: the texts of every request, in order, including failed ones.
        script: called before each response with the texts and the number of the request, from 0: it
            may wait, raise an error, or return other vectors; None: the usual ones.
        closed: whether `close` was called.
    """

    def __init__(self, dimensions: int | None = None, *, limits: EmbedLimits | None = None) -> None:
        self._dimensions, self._limits = dimensions or 64, limits or EmbedLimits()
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.sent: list[list[str]] = []
        self.script: Script = _as_usual
        self.closed = False

    @property
    def model_id(self) -> str:
        """Return the name of the vector space."""
        return "counting"

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return self._dimensions

    @property
    def limits(self) -> EmbedLimits:
        """Return the bounds of a request."""
        return self._limits

    @property
    def requests(self) -> int:
        """Return the number of requests, including failed ones."""
        return len(self.sent)

    async def embed(self, texts: Sequence[str], *, kind: TextKind) -> Vectors:
        """Embed texts, in the same order, unless the script decides otherwise.

        Args:
            texts: n texts, n >= 1.
            kind: decides where they are recorded.
        """
        self.sent.append(list(texts))
        scripted = await self.script(texts, len(self.sent) - 1)
        if scripted is not None:
            return scripted
        (self.texts if kind == "document" else self.queries).extend(texts)
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> Vector:
        """Return the vector of a text: shape (dimensions,), of length 1, the same in every process.

        Args:
            text: any.
        """
        found = np.zeros(self._dimensions, dtype=np.float32)
        for word in re.findall(r"\w+", text.lower()):
            number = zlib.crc32(word.encode())
            found[number % self._dimensions] += 1.0 if number & 0x10000 else -1.0
        if not found.any():
            found[0] = 1.0
        unit: Vector = (found / np.linalg.norm(found)).astype(np.float32)
        return unit

    async def close(self) -> None:
        """Record the call."""
        self.closed = True
