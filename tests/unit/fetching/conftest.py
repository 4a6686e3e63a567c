"""A web server to fetch from, and names that lead where a test says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scripted_web import ScriptedWeb
from tests.unit.fetching.client import Client, Names


@pytest.fixture
def web() -> Iterator[ScriptedWeb]:
    with ScriptedWeb() as server:
        yield server


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def client(web: ScriptedWeb, names: Names) -> Client:
    return Client(web, names)
