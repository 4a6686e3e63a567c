"""Installations of Livedex over Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.brokers import kafka_settings
from tests.kafka_installation import KafkaInstallation
from tests.kafka_outside import ExternalKafkaClient
from tests.scripted_embedder import EmbeddingServer


@pytest.fixture(autouse=True)
def _no_settings_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name
        for name in os.environ
        if name.startswith("LIVEDEX_") and not name.startswith("LIVEDEX_TEST_")
    ]:
        monkeypatch.delenv(name)


@pytest.fixture
def outside(kafka: str) -> ExternalKafkaClient:
    """Another system on the tests' Kafka, beside an installation of one partition a topic."""
    return ExternalKafkaClient(kafka, kafka_settings().prefix)


@pytest.fixture
def installation(
    kafka: str, owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> KafkaInstallation:
    """An installation of one partition a topic on the tests' Kafka."""
    return KafkaInstallation(owner_url, kafka, kafka_settings(partitions=1), tmp_path, embedder)
