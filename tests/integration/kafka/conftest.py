"""Installations of Livedex over Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.external_client import ExternalKafkaClient
from tests.support.kafka.installation import KafkaInstallation
from tests.support.pipelines.stage_runner import kafka_settings


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
