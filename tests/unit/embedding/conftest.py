"""A clock that tests move, and a server that they script."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.http.scripted_embedder import EmbeddingServer
from tests.unit.embedding.fake_time import FakeClock


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as made:
        yield made


@pytest.fixture
def passages() -> Callable[[int], list[str]]:
    """So many documents' texts, all different, each long enough not to be taken for a probe."""
    return lambda count: [
        f"passage number{n} speaks of subject{n * 7} and of nothing else at all, at some length"
        for n in range(count)
    ]
