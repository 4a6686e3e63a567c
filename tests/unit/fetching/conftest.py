"""A web server to fetch from, and names that lead where a test says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.http.scripted_website import WebServer
from tests.unit.fetching.client import FakeResolver, FetchClient


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture
def names() -> FakeResolver:
    return FakeResolver()


@pytest.fixture
def client(web: WebServer, names: FakeResolver) -> FetchClient:
    return FetchClient(web, names)
