"""An installation on each of the brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.stages import outcome
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.pipelines.installation import (
    InProcessInstallation,
    open_installation,
    settings_for,
)
from tests.support.pipelines.stage_runner import kafka_settings


@pytest.fixture(params=["postgres", "kafka"])
def settings(
    request: pytest.FixtureRequest,
    owner_url: str,
    embedder: EmbeddingServer,
    clean_environment: None,
) -> Settings:
    """Of an installation of the test's own."""
    servers = request.getfixturevalue("kafka") if request.param == "kafka" else None
    return settings_for(owner_url, servers, embedder, kafka_settings())


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [
        name
        for name in os.environ
        if name.startswith("LIVEDEX_") and not name.startswith("LIVEDEX_TEST_")
    ]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is tried again as often as always, and twenty times as soon."""
    monkeypatch.setattr(outcome, "FIRST_RETRY_DELAY_S", outcome.FIRST_RETRY_DELAY_S / 20)


@pytest.fixture
async def site(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> AsyncIterator[InProcessInstallation]:
    async with open_installation(settings, tmp_path, embedder) as opened:
        yield opened
