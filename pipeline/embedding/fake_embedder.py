"""An embedder for tests, here and in other projects: it needs no model, counts what it is sent,
and fails as it is told to.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from livedex.pipeline.embedding.embedder import EmbedLimits, TextKind, Vector, Vectors

Script = Callable[[Sequence[str], int], Awaitable[Vectors | None]]


async def _as_usual(texts: Sequence[str], request: int) -> None:
    """Answer well."""


class FakeEmbedder:
    """Texts that share words get vectors that are near: the sum of signed hashes of the words.

    Args:
        dimensions: length of a vector, >= 1; 64 without.
        limits: the bounds of one request.

    Attributes:
        texts: every text of a document that was answered with a vector, in order.
        queries: every query that was answered, probes included.
        sent: the texts of every request, in order, answered or not.
        script: called before each answer with the texts and the number of the request, from 0: it
            may wait, raise what is to go wrong,
            or give other vectors; None means the usual ones.
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
        """Names the vector space."""
        return "counting"

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._dimensions

    @property
    def limits(self) -> EmbedLimits:
        """The bounds of one request."""
        return self._limits

    @property
    def requests(self) -> int:
        """Requests so far, answered or not."""
        return len(self.sent)

    async def embed(self, texts: Sequence[str], *, kind: TextKind) -> Vectors:
        """Vectors for texts, in the same order, unless something else is scripted."""
        self.sent.append(list(texts))
        scripted = await self.script(texts, len(self.sent) - 1)
        if scripted is not None:
            return scripted
        (self.texts if kind == "document" else self.queries).extend(texts)
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> Vector:
        """The vector of a text: shape (dimensions,), of length 1, the same in every process."""
        found = np.zeros(self._dimensions, dtype=np.float32)
        for word in re.findall(r"\w+", text.lower()):
            number = zlib.crc32(word.encode())
            found[number % self._dimensions] += 1.0 if number & 0x10000 else -1.0
        if not found.any():
            found[0] = 1.0
        unit: Vector = (found / np.linalg.norm(found)).astype(np.float32)
        return unit

    async def close(self) -> None:
        """Remember it."""
        self.closed = True
