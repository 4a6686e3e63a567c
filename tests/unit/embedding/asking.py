"""Asking a service for vectors in tests, and scripts of what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from livedex.pipeline.embedding.client import PROBE_TEXT
from livedex.pipeline.embedding.embedder import EmbedLimits, Vector, Vectors
from livedex.pipeline.embedding.fake_embedder import FakeEmbedder, Script
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import OutageError, RejectedError
from tests.unit.embedding.fake_time import FakeClock


@dataclass
class EmbeddingResult:
    """What a call handed on.

    Attributes:
        vectors, refused: by the index of the text.
        answers: how many lists there were.
        outage: what ended it.
    """

    vectors: dict[int, Vector] = field(default_factory=dict)
    refused: dict[int, RejectedError] = field(default_factory=dict)
    answers: int = 0
    outage: OutageError | None = None


async def collect_embeddings(service: EmbeddingService, texts: Sequence[str]) -> EmbeddingResult:
    """All that a service hands on for texts, until it ends or an outage ends it."""
    got = EmbeddingResult()
    try:
        async for answer in service.embed_documents(texts):
            got.answers += 1
            for index, found in answer:
                assert index not in got.vectors
                assert index not in got.refused
                if isinstance(found, RejectedError):
                    got.refused[index] = found
                else:
                    got.vectors[index] = found
    except OutageError as exc:
        got.outage = exc
    return got


def assert_embeddings(
    got: EmbeddingResult, texts: Sequence[str], embedder: FakeEmbedder, *, but: Sequence[int] = ()
) -> None:
    """Every text has its own vector, except some; and none was paid for twice."""
    assert got.outage is None
    assert sorted(got.vectors) == [i for i in range(len(texts)) if i not in but]
    for index, vector in got.vectors.items():
        assert np.allclose(vector, embedder.vector(texts[index]), atol=1e-6)
    assert len(embedder.texts) == len(set(embedder.texts))


def service_on(embedder: FakeEmbedder, time: FakeClock, **more: object) -> EmbeddingService:
    """A service on the fake clock."""
    return EmbeddingService(embedder, clock=time.clock, **more)  # type: ignore[arg-type]


def counting(**limits: int) -> FakeEmbedder:
    """An embedder with these limits, one request at a time unless said otherwise."""
    return FakeEmbedder(32, limits=EmbedLimits(**{"concurrency": 1, **limits}))


def is_probe(texts: Sequence[str]) -> bool:
    """Whether a request asks whether the provider works."""
    return list(texts) == [PROBE_TEXT]


def fail_first(count: int, error: Callable[[], Exception]) -> Script:
    """The first requests with documents' texts fail."""
    left = count

    async def script(texts: Sequence[str], number: int) -> Vectors | None:
        nonlocal left
        if not is_probe(texts) and left > 0:
            left -= 1
            raise error()
        return None

    return script


def fail_when(
    error: Callable[[], Exception], when: Callable[[Sequence[str]], bool] = lambda texts: True
) -> Script:
    """Every request fails that looks like this."""

    async def script(texts: Sequence[str], number: int) -> Vectors | None:
        if when(texts):
            raise error()
        return None

    return script


def contains_poison(texts: Sequence[str]) -> bool:
    """Whether a request holds a text that the model cannot bear."""
    return any("POISON" in text for text in texts)
