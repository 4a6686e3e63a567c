"""The AsyncAPI document that other teams read is that of the code."""

from __future__ import annotations

import json
from pathlib import Path

from livedex.consumers.kafka.asyncapi import describe
from livedex.consumers.kafka.topics import topic_plans
from livedex.pipeline.settings.kafka import KafkaSettings

WRITTEN = Path(__file__).parents[2] / "deploy" / "asyncapi.json"


def test_the_document_in_the_repository_is_the_one_of_the_code() -> None:
    assert json.loads(WRITTEN.read_text("utf-8")) == describe(), (
        "python -m livedex.consumers.kafka.asyncapi > deploy/asyncapi.json"
    )


def test_every_topic_is_described() -> None:
    assert set(describe()["channels"]) == {plan.name for plan in topic_plans(KafkaSettings())}
